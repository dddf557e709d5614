#include <algorithm>

#include "cli/state_tables.hpp"
#include "cli/text_table.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::size_t tensors_shown_max = 40;

std::string side(const std::string& text) { return text.empty() ? "-" : visible(text); }

std::string facts_table(const DiffReport& report) {
    TextTable table{{{""}, {"A"}, {"B"}}};
    for (const FactDifference& each : report.facts) {
        table.add({visible(each.name), side(each.a), side(each.b)});
    }
    return table.text(2);
}

std::string tensors_table(const DiffReport& report) {
    TextTable table{{{"tensor"},
                     {"value"},
                     {"differing", Align::right},
                     {"of", Align::right},
                     {"absolute", Align::right},
                     {"relative", Align::right},
                     {"largest at"},
                     {"first at"}}};
    std::size_t left_out = 0;
    std::string mismatches;
    std::size_t rows = 0;
    for (const TensorDifference& each : report.tensors) {
        if (rows == tensors_shown_max) {
            ++left_out;
            continue;
        }
        ++rows;
        const std::string value{state::name_of(each.value)};
        if (!each.mismatch.empty()) {
            mismatches += "  " + visible(each.name) + ": " + each.mismatch + "\n";
            continue;
        }
        const Difference& numbers = each.numbers;
        table.add({visible(each.name), value, std::to_string(numbers.differing()),
                   std::to_string(each.shape.elements()), to_text_short(numbers.largest_absolute()),
                   to_text_short(numbers.largest_relative()),
                   place_text(each.shape, numbers.largest_at().value_or(0)),
                   place_text(each.shape, numbers.first().value_or(0))});
    }
    std::string text = mismatches;
    const bool any_numbers = std::any_of(report.tensors.begin(), report.tensors.end(),
                                         [](const auto& each) { return each.mismatch.empty(); });
    if (any_numbers) text += table.text(2);
    if (left_out > 0) {
        text += "  and " + std::to_string(left_out) + " more; --json has all\n";
    }
    return text;
}

}  // namespace

std::string to_table(const DiffReport& report) {
    const std::string within =
        report.tolerance ? ", within " + to_text(*report.tolerance) : ", bit for bit";
    std::string text = "A  " + visible(report.a) + "\nB  " + visible(report.b) + "\n";
    if (!report.facts.empty()) {
        text += "\nthey say of themselves:\n" + facts_table(report);
    }
    if (report.equal()) {
        text += "\nthe values are equal" + within + ": " + counted(report.values, "number") +
                " (digests stand for chunks where they are equal)\n";
    } else {
        text += "\nthe values differ" + within + ":\n" + tensors_table(report);
    }
    return text;
}

}  // namespace rhizome::cli
