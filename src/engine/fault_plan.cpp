#include "engine/fault_plan.hpp"

#include <algorithm>
#include <array>

#include "core/philox.hpp"
#include "core/text.hpp"
#include "schedule/draw.hpp"

namespace rhizome::engine {
namespace {

constexpr std::array kind_names{std::string_view{"kill"}, std::string_view{"stop"},
                                std::string_view{"exit"}, std::string_view{"abort"}};

/// What stands before the separator; the text goes on behind it. All of it, if there is none.
std::string_view take(std::string_view& text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view head = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return head;
}

template <class Names>
std::optional<std::size_t> place_in(const Names& names, std::string_view word) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
}

std::optional<std::int32_t> read_count(std::string_view text) {
    const auto number = parse_integer(text);
    if (!number || *number < 0 || *number > INT32_MAX) return std::nullopt;
    return static_cast<std::int32_t>(*number);
}

std::optional<double> read_chance(std::string_view text) {
    const auto value = parse_number(text);
    return value && *value > 0 && *value <= 1 ? value : std::nullopt;
}

/// The place of a fault, or false.
bool read_place(std::string_view text, Fault& fault) {
    constexpr std::string_view in_evaluation = "evaluation:";
    fault.phase = Phase::step;
    if (text.starts_with(in_evaluation)) {
        fault.phase = Phase::evaluation;
        text.remove_prefix(in_evaluation.size());
    } else if (const auto phase = place_in(phase_names, text);
               phase && *phase >= static_cast<std::size_t>(Phase::save)) {
        fault.phase = static_cast<Phase>(*phase);
        return true;
    }
    const bool counted = text.find('#') != std::string_view::npos;
    const std::string_view word = take(text, '#');
    fault.kind = schedule::kind_of(word);
    if (!fault.kind) return false;
    const auto index = counted ? read_count(text) : std::optional{0};
    fault.index = index.value_or(0);
    return index.has_value();
}

std::string read_fault(FaultKind how, std::string_view text, FaultPlan& plan) {
    const auto worker = read_count(take(text, '/'));
    if (!worker) return "names no worker";
    const std::string_view step = take(text, '/');
    const auto number = read_count(step);
    if (!number && step != "*") return "names no step";
    Fault fault{.how = how,
                .worker = WorkerId{*worker},
                .step = number,
                .phase = Phase::step,
                .kind = {},
                .index = 0};
    if (!read_place(text, fault)) return "names no place";
    plan.faults.push_back(fault);
    return "";
}

std::string read_soak(std::string_view text, FaultPlan& plan) {
    const auto seed = read_count(take(text, '/'));
    const auto chance = read_chance(text);
    if (!seed) return "has no seed";
    if (!chance) return "has no chance above 0 and up to 1";
    plan.soak = Soak{static_cast<std::uint64_t>(*seed), *chance};
    return "";
}

bool matches(const Fault& fault, const Point& point) {
    return fault.phase == point.phase && fault.kind == point.kind &&
           (!fault.step || *fault.step == point.step) &&
           (!fault.kind || fault.index == point.index);
}

}  // namespace

std::string_view name_of(FaultKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

ParsedFaults parse_faults(std::string_view text) {
    ParsedFaults parsed;
    while (!text.empty()) {
        const std::string_view item = take(text, ',');
        std::string_view rest = item;
        const std::string_view how = take(rest, '@');
        std::string problem = "is no kill, stop, exit, abort or soak";
        if (how == "soak") {
            problem = read_soak(rest, parsed.plan);
        } else if (const auto kind = place_in(kind_names, how)) {
            problem = read_fault(static_cast<FaultKind>(*kind), rest, parsed.plan);
        }
        if (problem.empty()) continue;
        parsed.problem = "\"" + visible(item) + "\" " + problem;
        return parsed;
    }
    return parsed;
}

std::optional<FaultKind> FaultWatch::strikes(const Point& point, std::size_t members) {
    const std::uint64_t place = passed_++;
    const auto fault = std::find_if(
        plan_.faults.begin(), plan_.faults.end(),
        [&](const Fault& each) { return each.worker == self_ && matches(each, point); });
    if (fault != plan_.faults.end()) {
        const FaultKind how = fault->how;
        plan_.faults.erase(fault);
        return how;
    }
    if (!plan_.soak || members < 2) return std::nullopt;
    const PhiloxCounter words =
        philox4x32_10({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32),
                       static_cast<std::uint32_t>(self_.value()), 0},
                      {static_cast<std::uint32_t>(plan_.soak->seed),
                       static_cast<std::uint32_t>(plan_.soak->seed >> 32)});
    const double drawn = static_cast<double>(words[0]) * 0x1p-32;
    return drawn < plan_.soak->chance ? std::optional{FaultKind::kill} : std::nullopt;
}

}  // namespace rhizome::engine
