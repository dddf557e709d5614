#include "cli/save_command.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include "cli/folder_options.hpp"
#include "cli/run_states.hpp"
#include "core/text.hpp"
#include "state/state_folder.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {
namespace {

namespace fs = std::filesystem;

/// Of the hidden folder in which a state comes to be: state::part_folder.
std::optional<std::int32_t> steps_of_part(std::string_view name) {
    constexpr std::string_view end = ".part";
    if (!name.starts_with('.') || !name.ends_with(end)) return std::nullopt;
    return state::steps_of_name(name.substr(1, name.size() - 1 - end.size()));
}

struct Names {
    std::set<std::int32_t> whole;
    std::set<std::int32_t> begun;
};

/// What lies there, by name alone; nothing where there is no such folder yet.
Names look_at(const std::string& states) {
    Names names;
    std::error_code problem;
    fs::directory_iterator entry{states, problem};
    for (const fs::directory_iterator end; !problem && entry != end; entry.increment(problem)) {
        const std::string name = entry->path().filename().string();
        if (const auto steps = state::steps_of_name(name)) names.whole.insert(*steps);
        if (const auto steps = steps_of_part(name)) names.begun.insert(*steps);
    }
    return names;
}

class Waiter {
  public:
    explicit Waiter(const world::RunFolder& folder)
        : folder_{folder}, states_{states_folder(folder.path())}, before_{look_at(states_)} {}

    /// Until the word was heard and a newer state is there, the run has ended, or the time is over.
    [[nodiscard]] std::optional<std::string> wait(Nanoseconds within) const {
        const Nanoseconds deadline = clock_.now() + within;
        do {
            const bool ended = has_ended();  // in this order: its last state comes before
            if (ended || !folder_.save_asked()) {
                if (auto found = newer()) return found;
            }
            if (ended) return std::nullopt;
            std::this_thread::sleep_for(folder_look);
        } while (clock_.now() < deadline);
        return std::nullopt;
    }

    [[nodiscard]] bool has_ended() const {
        if (folder_.finished()) return true;
        return folder_.living().empty() && folder_.other_hosts().empty();
    }

  private:
    /// One that was begun before the word came does not count.
    [[nodiscard]] std::optional<std::string> newer() const {
        for (const std::int32_t steps : look_at(states_).whole) {
            if (before_.whole.contains(steps) || before_.begun.contains(steps)) continue;
            return states_ + " has a state of " + counted(steps, "step");
        }
        return std::nullopt;
    }

    const world::RunFolder& folder_;
    std::string states_;
    Names before_;
    SteadyClock clock_;
};

std::string how_it_ended(const world::RunFolder& folder) {
    const auto ending = folder.finished();
    return "the run has ended (" +
           (ending ? ending->reason : std::string{"it left no word of how"}) + ")";
}

}  // namespace

SaveOptions parse_save_options(const Arguments& arguments) {
    const FolderOptions given = parse_folder_options("save", arguments, {});
    SaveOptions options{.folder = given.folder};
    if (given.within) options.within = *given.within;
    return options;
}

ExitCode save_command(const SaveOptions& options, const Log& log) {
    const auto folder = world::RunFolder::open(options.folder);
    const Waiter waiter{folder};
    if (waiter.has_ended()) {
        log.error(how_it_ended(folder) + ", nothing is saved any more");
        return ExitCode::unfinished;
    }
    if (const auto problem = folder.ask_to_save()) {
        throw ConfigError{"run folder " + folder.path() +
                          " (cannot be written: " + problem.message() + "), make it writable"};
    }
    if (const auto found = waiter.wait(options.within)) {
        log.info(*found);
        return ExitCode::done;
    }
    if (waiter.has_ended()) {
        static_cast<void>(folder.take_save_word());  // nobody will hear it
        log.error(how_it_ended(folder) + ", without a newer state");
        return ExitCode::unfinished;
    }
    const double seconds = std::chrono::duration<double>(options.within).count();
    log.error("no newer state is there (the time of " + to_text_short(seconds) + " s is over, " +
              (folder.save_asked() ? "and the run has not heard of it yet"
                                   : "though the run has heard of it") +
              "), it still comes if nothing is wrong");
    return ExitCode::unfinished;
}

}  // namespace rhizome::cli
