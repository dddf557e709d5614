#include "cli/state_command.hpp"

#include <limits>

#include "cli/state_diff.hpp"
#include "cli/state_exchange.hpp"
#include "cli/state_json.hpp"
#include "cli/state_look.hpp"
#include "cli/state_places.hpp"
#include "cli/state_prune.hpp"
#include "cli/state_tables.hpp"
#include "cli/state_write.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

template <class Report>
StateAnswer answer(const StateOptions& options, const Report& report,
                   ExitCode code = ExitCode::done) {
    return {options.json ? to_json(report) : to_table(report), code};
}

[[noreturn]] void refuse_value(const std::string& flag, const std::string& value,
                               const Problem& problem) {
    throw ConfigError{flag + "=" + shown(value) + " (" + problem.reason + "), " + problem.hint};
}

void read_count(const StateOptions& options, const std::string& flag, std::int64_t least,
                std::int32_t& target) {
    const std::string* text = options.value_of(flag);
    if (text == nullptr) return;
    std::int64_t value = 0;
    const WholeRange range{least, std::numeric_limits<std::int32_t>::max()};
    if (const auto problem = read_whole(*text, range, value)) refuse_value(flag, *text, *problem);
    target = static_cast<std::int32_t>(value);
}

DiffRule read_diff_rule(const StateOptions& options) {
    DiffRule rule;
    if (const std::string* text = options.value_of("--tolerance")) {
        double tolerance = 0;
        if (const auto problem = read_real(*text, not_negative, tolerance)) {
            refuse_value("--tolerance", *text, *problem);
        }
        rule.tolerance = tolerance;
    }
    const std::string* only = options.value_of("--only");
    if (only == nullptr) return rule;
    rule.values.clear();
    for (const state::Value value : state::all_values) {
        if (state::name_of(value) == *only) rule.values.push_back(value);
    }
    if (rule.values.empty()) {
        refuse_value("--only", *only,
                     {"no such value", "take parameter|first_moment|second_moment"});
    }
    return rule;
}

StateAnswer diff(const StateOptions& options, const Files& files, const Log& log) {
    const DiffRule rule = read_diff_rule(options);
    const std::string a = find_state(files, options.words[0], log);
    const std::string b = find_state(files, options.words[1], log);
    state::StateReader reader_a{files, a};
    state::StateReader reader_b{files, b};
    const DiffReport report = compare_states(reader_a, reader_b, rule);
    return answer(options, report, report.equal() ? ExitCode::done : ExitCode::different);
}

StateAnswer prune(const StateOptions& options, const Files& files) {
    state::KeepRule rule{.last = 3, .every = 0};
    read_count(options, "--keep", 1, rule.last);
    read_count(options, "--keep-every", 0, rule.every);
    const Removal removal = options.has("--dry-run") ? Removal::told_only : Removal::real;
    return answer(options, prune_states(files, options.words[0], rule, removal));
}

StateAnswer import_file(const StateOptions& options, const Files& files,
                        const Environment& environment) {
    ImportSources sources{options.keys, environment, read_config_file};
    if (const std::string* heads = options.value_of("--heads")) {
        sources.flags.push_back("--model.heads=" + *heads);
    }
    return answer(options, import_state(files, options.words[0], options.words[1], sources));
}

StateAnswer run_verb(const StateOptions& options, const Files& files,
                     const Environment& environment, const Log& log) {
    const std::vector<std::string>& words = options.words;
    switch (options.verb) {
        case StateVerb::list:
            return answer(options, list_states(files, words[0]));
        case StateVerb::show:
            return words.size() == 1 ? answer(options, show_state(files, words[0], log))
                                     : answer(options, show_tensor(files, words[0], words[1], log));
        case StateVerb::verify: {
            const VerifyReport report = verify_states(files, words[0]);
            return answer(options, report, report.whole() ? ExitCode::done : ExitCode::bad_data);
        }
        case StateVerb::diff:
            return diff(options, files, log);
        case StateVerb::history:
            return answer(options, show_history(files, words[0], log));
        case StateVerb::merge: {
            check_target(*files, words[1]);
            return answer(options, merge_state(files, find_state(files, words[0], log), words[1]));
        }
        case StateVerb::prune:
            return prune(options, files);
        case StateVerb::export_file: {
            check_target(*files, words[1]);
            const ExportForm form = options.has("--raw") ? ExportForm::raw : ExportForm::gpt2;
            return answer(options,
                          export_state(files, find_state(files, words[0], log), words[1], form));
        }
        case StateVerb::import_file:
            return import_file(options, files, environment);
    }
    ENSURE(false);
    return {};
}

}  // namespace

StateAnswer state_command(const StateOptions& options, const Files& files,
                          const Environment& environment, const Log& log) {
    if (options.help) return {state_help_text(options.verb)};
    try {
        return run_verb(options, files, environment, log);
    } catch (const state::FileError& error) {
        throw DataError{visible(error.path()) + " (" + visible(error.reason()) +
                        "), check its name and rights"};
    }
}

}  // namespace rhizome::cli
