#include "cli/options.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/keys.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

void apply(const Setting& setting, RunConfig& config, Places& places) {
    const Key* key = find_key(setting.key);
    ENSURE(key != nullptr);
    if (const auto problem = key->set(config, setting.value)) {
        throw ConfigError{setting.where + "=" + shown(setting.value) + " (" + problem->reason +
                          "), " + problem->hint};
    }
    places[setting.key] = setting.where;
    if (setting.key != size_key) return;
    for (const std::string_view set : keys_of_size) places[std::string{set}] = setting.where;
}

/// A size first: what it stands for gives way to single keys of the same source, and wins over
/// those of a weaker one.
void apply_source(const std::vector<Setting>& settings, RunConfig& config, Places& places) {
    for (const Setting& setting : settings) {
        if (setting.key == size_key) apply(setting, config, places);
    }
    for (const Setting& setting : settings) {
        if (setting.key != size_key) apply(setting, config, places);
    }
}

std::string places_of(const std::vector<std::string>& keys, const Places& places) {
    std::string list;
    for (const std::string& key : keys) {
        const auto place = places.find(key);
        if (place == places.end() || list.find(place->second) != std::string::npos) continue;
        list += (list.empty() ? "" : "; ") + place->second;
    }
    return list.empty() ? "" : " [" + list + "]";
}

}  // namespace

GivenConfig parse_given_config(const WeakestText& weakest, const Arguments& arguments,
                               const Environment& environment, const ReadFile& read_file) {
    std::vector<Setting> flags = flag_settings(arguments, train_flags());
    RunConfig config;
    Places places;
    apply_source(file_settings(weakest.where, weakest.text), config, places);
    const auto file = std::find_if(flags.begin(), flags.end(),
                                   [](const Setting& flag) { return flag.key == "config"; });
    if (file != flags.end()) {
        const std::string path = file->value;
        flags.erase(file);
        apply_source(file_settings(path, read_file(path)), config, places);
    }
    apply_source(environment_settings(environment), config, places);
    apply_source(flags, config, places);
    if (!places.contains("optimizer.decay_steps")) config.optimizer.decay_steps = config.steps;
    if (!config.data.validation.empty()) config.data.validation_share = 0;
    return {std::move(config), std::move(places)};
}

void refuse_conflicts(const RunConfig& config, const Places& places) {
    if (const auto conflict = find_conflict(config)) {
        throw ConfigError{conflict->message + places_of(conflict->keys, places)};
    }
}

RunConfig parse_run_config(const Arguments& arguments, const Environment& environment,
                           const ReadFile& read_file) {
    GivenConfig given = parse_given_config({}, arguments, environment, read_file);
    if (given.config.data.train.empty()) {
        throw ConfigError{
            "data.train (no training data is named), write --data.train FILE, "
            "RHIZOME_DATA_TRAIN=FILE, or data.train = FILE in the configuration"};
    }
    refuse_conflicts(given.config, given.places);
    return std::move(given.config);
}

RunConfig parse_mathematics(const std::string& where, std::string_view text) {
    const std::vector<Setting> settings = file_settings(where, text);
    RunConfig config;
    Places places;
    apply_source(settings, config, places);
    for (const Key& key : keys()) {
        const bool wanted = key.kind == KeyKind::mathematics;
        if (key.name == size_key || wanted == places.contains(key.name)) continue;
        throw ConfigError{shown(where) + ": " + key.name +
                          (wanted ? " (is missing), give all keys that decide the weights"
                                  : " (decides no weights), leave it out")};
    }
    config.steps = 1;  // how many there were is not known here, and no conflict
    refuse_conflicts(config, places);
    return config;
}

std::string read_config_file(const std::string& path) {
    constexpr std::size_t bytes_max = 1 << 20;
    const std::string where = "--config=" + shown(path);
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) {
        throw ConfigError{where + " (is a folder), name a file"};
    }
    errno = 0;
    std::ifstream file{path, std::ios::binary};
    std::string content(bytes_max + 1, '\0');
    if (file) file.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file.is_open() || file.bad()) {
        const std::string reason = std::generic_category().message(errno);
        throw ConfigError{where + " (cannot be read: " + reason + "), check its name and rights"};
    }
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (content.size() > bytes_max) {
        throw ConfigError{where + " (larger than a megabyte), name a configuration file"};
    }
    return content;
}

}  // namespace rhizome::cli
