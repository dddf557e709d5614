#include "cli/state_tables.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "cli/text_table.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::size_t title_width = 20;

std::string titled(const std::string& title, const std::string& text) {
    return padded(title, title_width) + visible(text) + "\n";
}

std::string bytes_text(std::int64_t bytes) { return to_short(static_cast<double>(bytes)) + "B"; }

std::string count_text(std::int64_t count) { return to_short(static_cast<double>(count)); }

std::string extents_text(const Shape& shape) {
    std::string text;
    for (std::size_t d = 0; d < shape.dimensions(); ++d) {
        text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
    }
    return "(" + text + ")";
}

std::string number_text(const std::optional<double>& number) {
    return number ? to_text_short(*number) : "-";
}

/// The shortest that is the same number again, of its type.
std::string exact_text(double number, DType dtype) {
    if (dtype == DType::f64 || !std::isfinite(number)) return to_text(number);
    std::array<char, 32> text{};
    const auto [end, error] =
        std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(number));
    ENSURE(error == std::errc{});
    return {text.data(), end};
}

/// 0-3,7
std::string ranges_text(const std::vector<std::int32_t>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
        if (last > i) text += "-" + std::to_string(numbers[last]);
        i = last + 1;
    }
    return text;
}

std::string indented_lines(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        result += "  " + visible(line) + "\n";
    }
    return result;
}

std::string passes_text(const state::StateFacts& facts) {
    std::string text = counted(facts.steps, "step");
    if (facts.samples_per_pass <= 0) return text;
    const double passes =
        static_cast<double>(facts.samples) / static_cast<double>(facts.samples_per_pass);
    return text + ", " + counted(facts.samples, "sample") + ", " + to_fixed(passes, 2) +
           " passes over " + std::to_string(facts.samples_per_pass);
}

std::string or_none(const std::string& text) { return text.empty() ? "not known" : text; }

std::string tensors_table(const ShowReport& report) {
    TextTable table{{{"tensor"},
                     {"shape"},
                     {"type"},
                     {"parameters", Align::right},
                     {"chunks", Align::right},
                     {"writers"}}};
    for (const ListedTensor& each : report.tensors) {
        table.add({each.tensor.name, extents_text(each.tensor.shape), dtype_text(each.tensor.dtype),
                   std::to_string(each.tensor.shape.elements()), std::to_string(each.chunks),
                   ranges_text(each.writers)});
    }
    return table.text();
}

std::string steps_of(const ListedState& state) { return std::to_string(state.steps); }

void add_states(TextTable& table, const std::vector<ListedState>& states, const std::string& what) {
    for (const ListedState& each : states) {
        table.add({steps_of(each), bytes_text(each.bytes), what, visible(each.problem)});
    }
}

}  // namespace

std::string dtype_text(DType dtype) { return dtype == DType::f64 ? "f64" : "f32"; }

std::string to_table(const ListReport& report) {
    std::string text = visible(report.folder) + "\n";
    const auto newest = newest_whole(report.states);
    TextTable table{{{"steps", Align::right}, {"saved at"}, {"size", Align::right}, {"state"}}};
    for (std::size_t i = 0; i < report.states.size(); ++i) {
        const ListedState& each = report.states[i];
        std::string verdict = each.problem.empty() ? "whole" : "damaged: " + each.problem;
        if (newest == i) verdict += ", newest";
        table.add({steps_of(each), visible(each.saved_at.empty() ? "?" : each.saved_at),
                   bytes_text(each.bytes), visible(verdict)});
    }
    text += report.states.empty() ? "  no states\n" : table.text(2);
    for (const Leftover& each : report.leftovers) {
        text += visible(each.path) + " (" + bytes_text(each.bytes) +
                "): a save under way, or what is left of one; the next save removes it\n";
    }
    if (!report.states.empty()) {
        text += "whole by structure; `rhizome-state verify` reads the values as well\n";
    }
    return text;
}

std::string to_table(const ShowReport& report) {
    const state::StateFacts& facts = report.facts;
    std::string text =
        titled("state", report.path) + titled("trained", passes_text(facts)) +
        titled("saved at", facts.saved_at + " by " + facts.program) +
        titled("size", bytes_text(report.bytes) + " in " + counted(report.shares, "share") +
                           " and an index") +
        titled("parameters",
               count_text(report.parameters) + " in " +
                   counted(static_cast<std::int64_t>(report.tensors.size()), "tensor") +
                   ", chunks of " + counted(report.chunk_elements, "element")) +
        titled("computed by", or_none(facts.fingerprint)) +
        titled("mathematics", or_none(facts.mathematics_digest)) +
        titled("training data", or_none(facts.data_digest)) + titled("content", report.digest) +
        titled("history", counted(static_cast<std::int64_t>(facts.history.size()), "event") +
                              ", see `rhizome-state history`");
    text += "\nmathematics, which decides the weights:\n" + indented_lines(facts.mathematics);
    if (!facts.layout.empty()) text += "\nlayout:\n" + indented_lines(facts.layout);
    text += "\n" + tensors_table(report);
    for (const state::StoredTie& tie : report.ties) {
        text += tie.use + " is " + tie.owner + ", used again\n";
    }
    return text;
}

std::string to_table(const TensorReport& report) {
    std::string text =
        titled("state", report.path + ", " + counted(report.steps, "step")) +
        titled("tensor",
               report.tensor.name +
                   (report.use.empty() ? "" : ", which is used as " + report.use + " as well"));
    text +=
        titled("shape", extents_text(report.tensor.shape) + " " + dtype_text(report.tensor.dtype) +
                            ", " + counted(report.tensor.shape.elements(), "element") + " in " +
                            counted(report.chunks, "chunk")) +
        "\n";
    TextTable table{{{"value"},
                     {"least", Align::right},
                     {"largest", Align::right},
                     {"mean", Align::right},
                     {"rms", Align::right},
                     {"not finite", Align::right},
                     {"first"}}};
    for (const ShownValue& each : report.values) {
        std::string first;
        for (const double number : each.first) {
            first += (first.empty() ? "" : " ") + exact_text(number, report.tensor.dtype);
        }
        if (std::cmp_less(each.first.size(), each.statistics.elements())) first += " ...";
        table.add({std::string{state::name_of(each.value)}, number_text(each.statistics.least()),
                   number_text(each.statistics.largest()), number_text(each.statistics.mean()),
                   number_text(each.statistics.rms()), std::to_string(each.statistics.non_finite()),
                   first});
    }
    return text + table.text();
}

std::string to_table(const VerifyReport& report) {
    std::string text;
    for (const VerifiedState& each : report.states) {
        const state::Verified& verified = each.verified;
        text += visible(each.path) + "\n";
        for (const state::Fault& fault : verified.faults) {
            text += "  damaged: " + visible(fault.file) + ": " + visible(fault.place) + ": " +
                    visible(fault.reason) + "\n";
        }
        if (verified.faults.empty()) {
            text += "  whole, " + bytes_text(verified.bytes) + " read\n  weights  " +
                    verified.weights + "\n";
        }
    }
    return text;
}

std::string to_table(const HistoryReport& report) {
    TextTable table{{{"time"}, {"steps", Align::right}, {"event"}, {""}}};
    for (const state::Event& event : report.history) {
        table.add({visible(event.time), std::to_string(event.steps), visible(event.kind),
                   visible(event.text)});
    }
    const std::string path = visible(report.path) + "\n";
    return path + (report.history.empty() ? "  no events\n" : table.text(2));
}

std::string to_table(const PruneReport& report) {
    TextTable table{{{"steps", Align::right}, {"size", Align::right}, {""}, {""}}};
    add_states(table, report.removed, report.dry_run ? "would be removed" : "removed");
    add_states(table, report.kept, "kept");
    add_states(table, report.damaged, "left alone: damaged");
    const bool any = !report.removed.empty() || !report.kept.empty() || !report.damaged.empty();
    return visible(report.folder) + "\n" + (any ? table.text(2) : "  no states\n");
}

std::string to_table(const WrittenReport& report) {
    return visible(report.to) + " (" + report.what + ", " + counted(report.steps, "step") + ", " +
           count_text(report.parameters) + " parameters, " + bytes_text(report.bytes) +
           "), made of " + visible(report.from) + "\n";
}

}  // namespace rhizome::cli
