#include "cli/state_options.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

struct VerbFlag {
    std::string_view name;
    std::string_view takes;  // empty: a switch
};

constexpr std::array<VerbFlag, 0> no_flags{};
constexpr std::array diff_flags{VerbFlag{"--tolerance", "NUMBER"}, VerbFlag{"--only", "VALUE"}};
constexpr std::array prune_flags{VerbFlag{"--keep", "NUMBER"}, VerbFlag{"--keep-every", "STEPS"},
                                 VerbFlag{"--dry-run", ""}};
constexpr std::array export_flags{VerbFlag{"--raw", ""}};
constexpr std::array import_flags{VerbFlag{"--heads", "NUMBER"}};

struct VerbForm {
    StateVerb verb;
    std::string_view name;
    std::string_view words;
    std::size_t words_min;
    std::size_t words_max;
    std::span<const VerbFlag> flags;
};

constexpr std::array verbs{
    VerbForm{StateVerb::list, "ls", "RUN", 1, 1, no_flags},
    VerbForm{StateVerb::show, "show", "STATE [TENSOR]", 1, 2, no_flags},
    VerbForm{StateVerb::verify, "verify", "STATE|RUN", 1, 1, no_flags},
    VerbForm{StateVerb::diff, "diff", "A B", 2, 2, diff_flags},
    VerbForm{StateVerb::history, "history", "STATE|RUN", 1, 1, no_flags},
    VerbForm{StateVerb::merge, "merge", "STATE OUT", 2, 2, no_flags},
    VerbForm{StateVerb::prune, "prune", "RUN", 1, 1, prune_flags},
    VerbForm{StateVerb::export_file, "export", "STATE FILE.safetensors", 2, 2, export_flags},
    VerbForm{StateVerb::import_file, "import", "FILE.safetensors OUT", 2, 2, import_flags},
};

bool is_help(std::string_view word) { return word == "--help" || word == "-h"; }

const VerbForm& find_verb(const std::string& word) {
    std::vector<std::string> names;
    for (const VerbForm& form : verbs) {
        if (form.name == word) return form;
        names.emplace_back(form.name);
    }
    const auto meant = nearest(word, names);
    throw ConfigError{"`" + shown(word) + "` (no such command), " +
                      (meant ? "did you mean `rhizome-state " + *meant + "`?"
                             : "`rhizome-state --help` lists what there is")};
}

std::string help_of(const VerbForm& form) {
    return "`rhizome-state " + std::string{form.name} + " --help`";
}

class Parser {
  public:
    Parser(const VerbForm& form, const Arguments& arguments)
        : form_{form}, arguments_{arguments}, options_{.verb = form.verb} {
        if (form.verb == StateVerb::import_file) key_names_ = train_flags().names;
    }

    StateOptions run() {
        // The verb is the first.
        for (next_ = 1; next_ < arguments_.size(); ++next_) {
            const std::string& word = arguments_[next_];
            if (word.starts_with("--")) {
                read_flag(word);
            } else if (word.starts_with('-') && word.size() > 1) {
                refuse_flag(word);
            } else {
                options_.words.push_back(word);
            }
        }
        check_words();
        return std::move(options_);
    }

  private:
    void read_flag(const std::string& word) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const auto flag = std::find_if(form_.flags.begin(), form_.flags.end(),
                                       [&](const VerbFlag& each) { return each.name == name; });
        const bool is_key =
            std::find(key_names_.begin(), key_names_.end(), name.substr(2)) != key_names_.end();
        const bool is_json = name == "--json";
        if (flag == form_.flags.end() && !is_key && !is_json) refuse_flag(name);
        if (!given_.insert(name).second) {
            throw ConfigError{name + " (given before), keep one"};
        }
        if (is_json || (!is_key && flag->takes.empty())) {
            if (equals != std::string::npos) {
                throw ConfigError{name + " (takes no value), leave `=" +
                                  shown(word.substr(equals + 1)) + "` out"};
            }
            if (is_json) options_.json = true;
            if (!is_json) options_.flags[name] = "";
            return;
        }
        const std::string value =
            equals != std::string::npos ? word.substr(equals + 1) : next_word(name);
        if (value.empty()) throw ConfigError{name + " (has no value), write " + name + "=VALUE"};
        if (is_key) {
            options_.keys.push_back(name + "=" + value);
        } else {
            options_.flags[name] = value;
        }
    }

    std::string next_word(const std::string& name) {
        if (next_ + 1 == arguments_.size()) {
            throw ConfigError{name + " (has no value), write " + name + "=VALUE"};
        }
        const std::string& value = arguments_[++next_];
        if (!value.starts_with("--")) return value;
        throw ConfigError{name + " (no value: `" + shown(value) + "` looks like a flag), write " +
                          name + "=VALUE"};
    }

    [[noreturn]] void refuse_flag(const std::string& name) const {
        std::vector<std::string> names{"--json", "--help"};
        for (const VerbFlag& flag : form_.flags) names.emplace_back(flag.name);
        for (const std::string& key : key_names_) names.push_back("--" + key);
        const auto meant = nearest(name, names);
        throw ConfigError{"`" + shown(name) + "` (no such flag), " +
                          (meant ? "did you mean " + *meant + "?" : help_of(form_) + " lists all")};
    }

    void check_words() const {
        const std::size_t count = options_.words.size();
        const std::string usage =
            "write rhizome-state " + std::string{form_.name} + " " + std::string{form_.words};
        if (count < form_.words_min) {
            throw ConfigError{"rhizome-state " + std::string{form_.name} + " (" +
                              (count == 0 ? "names nothing" : "one name is missing") + "), " +
                              usage};
        }
        if (count > form_.words_max) {
            throw ConfigError{"`" + shown(options_.words[form_.words_max]) +
                              "` (is one too many), " + usage};
        }
        for (const std::string& word : options_.words) {
            if (word.empty()) throw ConfigError{"`` (names nothing), " + usage};
        }
    }

    const VerbForm& form_;
    const Arguments& arguments_;
    std::size_t next_ = 0;
    StateOptions options_;
    std::vector<std::string> key_names_{};  // of import
    std::set<std::string> given_{};
};

}  // namespace

const std::string* StateOptions::value_of(const std::string& flag) const {
    const auto found = flags.find(flag);
    return found == flags.end() ? nullptr : &found->second;
}

StateOptions parse_state_options(const Arguments& arguments) {
    ENSURE(!arguments.empty());
    const VerbForm& form = find_verb(arguments.front());
    if (std::any_of(arguments.begin() + 1, arguments.end(), is_help)) {
        return {.verb = form.verb, .help = true};
    }
    return Parser{form, arguments}.run();
}

}  // namespace rhizome::cli
