#include "cli/sources.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <optional>
#include <sstream>

#include "cli/keys.hpp"
#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

namespace po = boost::program_options;

/// Of the build, its scripts and the launcher; they may be set while the program runs.
constexpr std::array<std::string_view, 3> reserved_variables{"RHIZOME_SETUP", "RHIZOME_MPI_ACCEPT",
                                                             mpirun_variable};

constexpr std::string_view train_help = "rhizome train --help";

/// The name that was probably meant: the only one that begins with the word, the only one that is
/// the word in some section, or the one with the fewest letters changed.
std::optional<std::string> guess_name(const std::string& word,
                                      const std::vector<std::string>& names) {
    const auto only = [&names](const auto& fits) -> std::optional<std::string> {
        const auto first = std::find_if(names.begin(), names.end(), fits);
        if (first == names.end() || std::any_of(first + 1, names.end(), fits)) return std::nullopt;
        return *first;
    };
    if (word.size() >= 3) {
        const auto begins = [&word](const std::string& name) { return name.starts_with(word); };
        if (auto name = only(begins)) return name;
        const auto ends = [&word](const std::string& name) { return name.ends_with("." + word); };
        if (auto name = only(ends)) return name;
    }
    return nearest(word, names);
}

ConfigError unknown_key(const std::string& where, const std::optional<std::string>& guess,
                        std::string_view prefix, std::string_view help) {
    return ConfigError{shown(where) + " (no such key), " +
                       (guess ? "did you mean " + std::string{prefix} + *guess + "?"
                              : "`" + std::string{help} + "` lists all")};
}

std::vector<std::string> key_names() {
    std::vector<std::string> names;
    for (const Key& key : keys()) names.push_back(key.name);
    return names;
}

/// Appends, unless the value is missing or the key was there before.
void add(std::vector<Setting>& settings, Setting setting) {
    if (setting.value.empty()) {
        throw ConfigError{setting.where + " (has no value), give one or leave the key out"};
    }
    for (const Setting& earlier : settings) {
        if (earlier.key != setting.key) continue;
        throw ConfigError{setting.where + "=" + shown(setting.value) + " (given before: " +
                          earlier.where + "=" + shown(earlier.value) + "), keep one"};
    }
    settings.push_back(std::move(setting));
}

bool is_number_like(std::string_view text) {
    return text.size() > 1 && std::string_view{"0123456789."}.find(text[1]) != text.npos;
}

Setting to_setting(const po::option& option, const Flags& flags) {
    const std::string& token = option.original_tokens.front();
    if (option.string_key.empty()) {
        throw ConfigError{"`" + shown(token) +
                          "` (belongs to no flag), write --key value or --key=value"};
    }
    const std::string where = "--" + option.string_key;
    if (option.unregistered) {
        throw unknown_key(where, guess_name(option.string_key, flags.names), "--", flags.help);
    }
    ENSURE(option.value.size() == 1);
    const std::string& value = option.value.front();
    const bool adjacent = option.original_tokens.size() == 1;  // --key=value leaves no doubt
    if (!adjacent && value.starts_with('-') && !is_number_like(value)) {
        throw ConfigError{where + " (no value: `" + shown(value) + "` looks like a flag), write " +
                          where + "=VALUE"};
    }
    return {option.string_key, value, where};
}

/// A line without its comment and the blanks around it.
std::string_view content_of(std::string_view line) {
    constexpr std::string_view blanks = " \t\r";
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(blanks);
    if (first == line.npos) return {};
    return line.substr(first, line.find_last_not_of(blanks) - first + 1);
}

/// Boost reads the lines but does not tell which one an option came from, so it gets them one by
/// one, each below the header of its section.
std::vector<po::option> read_line(const std::string& section, std::string_view line,
                                  const std::string& place) {
    std::istringstream stream{section + "\n" + std::string{line} + "\n"};
    try {
        return po::parse_config_file(stream, po::options_description{}, true).options;
    } catch (const po::error&) {
        throw ConfigError{place + "`" + shown(content_of(line)) +
                          "` (neither key = value nor [section]), mend the line"};
    }
}

/// `data.train = a#b` would silently be `a`.
void refuse_comment_in_value(std::string_view line, const std::string& place) {
    const std::size_t hash = line.find('#');
    if (hash == line.npos || hash == 0) return;
    if (line[hash - 1] == ' ' || line[hash - 1] == '\t') return;
    throw ConfigError{place + "`" + shown(line) +
                      "` (# starts a comment), put a blank before it; a value cannot hold one"};
}

}  // namespace

Flags train_flags() {
    Flags flags{.names = key_names(), .help = std::string{train_help}};
    flags.names.emplace_back("config");
    return flags;
}

std::vector<Setting> flag_settings(const Arguments& arguments, const Flags& flags) {
    po::options_description known;
    for (const std::string& name : flags.names) {
        known.add_options()(name.c_str(), po::value<std::string>());
    }
    std::vector<Setting> settings;
    try {
        using namespace po::command_line_style;
        const auto parsed = po::command_line_parser{arguments}
                                .options(known)
                                .style(allow_long | long_allow_adjacent | long_allow_next)
                                .allow_unregistered()
                                .run();
        for (const po::option& option : parsed.options) add(settings, to_setting(option, flags));
    } catch (const po::error_with_option_name& error) {
        // Only one thing is left for Boost to complain about: `--key` at the end, and `--key=`.
        const std::string where = error.get_option_name();
        const std::string name = where.substr(std::min<std::size_t>(2, where.size()));
        if (std::find(flags.names.begin(), flags.names.end(), name) == flags.names.end()) {
            throw unknown_key(where, guess_name(name, flags.names), "--", flags.help);
        }
        throw ConfigError{where + " (has no value), write " + where + "=VALUE"};
    }
    return settings;
}

TakenFlags take_flags(const Arguments& arguments, const std::vector<std::string>& names) {
    Flags flags = train_flags();
    flags.names.insert(flags.names.end(), names.begin(), names.end());
    TakenFlags result;
    for (Setting& setting : flag_settings(arguments, flags)) {
        if (std::find(names.begin(), names.end(), setting.key) == names.end()) {
            result.rest.push_back(setting.where + "=" + setting.value);
        } else {
            result.taken.push_back(std::move(setting));
        }
    }
    return result;
}

std::vector<Setting> environment_settings(const Environment& environment) {
    std::vector<std::string> tails;  // of the names, after RHIZOME_
    for (const Key& key : keys()) {
        tails.push_back(variable_of(key.name).substr(variable_prefix.size()));
    }
    std::vector<Setting> settings;
    for (const auto& [variable, value] : environment) {
        if (!variable.starts_with(variable_prefix)) continue;
        if (std::find(reserved_variables.begin(), reserved_variables.end(), variable) !=
            reserved_variables.end()) {
            continue;
        }
        const std::string tail = variable.substr(variable_prefix.size());
        const auto found = std::find(tails.begin(), tails.end(), tail);
        if (found == tails.end()) {
            throw unknown_key(variable, guess_name(tail, tails), variable_prefix, train_help);
        }
        const Key& key = keys()[static_cast<std::size_t>(found - tails.begin())];
        add(settings, {key.name, value, variable});
    }
    return settings;
}

std::vector<Setting> file_settings(const std::string& path, std::string_view content) {
    const std::vector<std::string> names = key_names();
    std::vector<Setting> settings;
    std::string section;
    std::size_t number = 0;
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // some editors begin with it
    if (content.starts_with(byte_order_mark)) content.remove_prefix(byte_order_mark.size());
    while (!content.empty()) {
        const std::size_t end = std::min(content.find('\n'), content.size());
        const std::string_view line = content.substr(0, end);
        content.remove_prefix(std::min(end + 1, content.size()));
        const std::string place = shown(path) + ":" + std::to_string(++number) + ": ";

        const std::string_view text = content_of(line);
        if (text.empty()) continue;
        refuse_comment_in_value(line, place);
        if (text.starts_with('[') && text.ends_with(']')) {
            if (text.size() == 2) throw ConfigError{place + "[] (names no section), name one"};
            section = text;
            continue;
        }
        for (const po::option& option : read_line(section, line, place)) {
            const std::string& name = option.string_key;
            if (find_key(name) == nullptr) {
                throw unknown_key(place + (name.empty() ? "=" : name), guess_name(name, names), "",
                                  train_help);
            }
            add(settings, {name, option.value.front(), place + name});
        }
    }
    return settings;
}

}  // namespace rhizome::cli
