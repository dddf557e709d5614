#include "cli/state_json.hpp"

#include <nlohmann/json.hpp>

#include "cli/key_lines.hpp"
#include "cli/state_tables.hpp"

namespace rhizome::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string document(const Json& json) {
    constexpr int indent = 1;
    return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json{} : Json(text); }

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json{};
}

Json shape_json(const Shape& shape) {
    Json extents = Json::array();
    for (std::size_t d = 0; d < shape.dimensions(); ++d) extents.push_back(shape[d]);
    return extents;
}

Json keys_json(const std::string& lines) {
    Json keys = Json::object();
    for (const auto& [key, value] : parse_key_lines(lines)) keys[key] = value;
    return keys;
}

Json tensor_json(const state::StoredTensor& tensor) {
    return {{"name", tensor.name},
            {"shape", shape_json(tensor.shape)},
            {"type", dtype_text(tensor.dtype)},
            {"elements", tensor.shape.elements()}};
}

Json listed_json(const ListedState& state) {
    return {{"path", state.path},
            {"steps", state.steps},
            {"saved_at", text_or_null(state.saved_at)},
            {"bytes", state.bytes},
            {"whole", state.problem.empty()},
            {"problem", text_or_null(state.problem)}};
}

Json listed_json(const std::vector<ListedState>& states) {
    Json list = Json::array();
    for (const ListedState& each : states) list.push_back(listed_json(each));
    return list;
}

Json history_json(const std::vector<state::Event>& history) {
    Json list = Json::array();
    for (const state::Event& event : history) {
        list.push_back({{"time", event.time},
                        {"steps", event.steps},
                        {"kind", event.kind},
                        {"text", event.text}});
    }
    return list;
}

}  // namespace

std::string to_json(const ListReport& report) {
    Json states = listed_json(report.states);
    const auto newest = newest_whole(report.states);
    for (std::size_t i = 0; i < states.size(); ++i) states[i]["newest"] = newest == i;
    Json leftovers = Json::array();
    for (const Leftover& each : report.leftovers) {
        leftovers.push_back({{"path", each.path}, {"bytes", each.bytes}});
    }
    return document({{"folder", report.folder}, {"states", states}, {"leftovers", leftovers}});
}

std::string to_json(const ShowReport& report) {
    const state::StateFacts& facts = report.facts;
    Json tensors = Json::array();
    for (const ListedTensor& each : report.tensors) {
        Json tensor = tensor_json(each.tensor);
        tensor["chunks"] = each.chunks;
        tensor["writers"] = each.writers;
        tensors.push_back(std::move(tensor));
    }
    Json ties = Json::object();
    for (const state::StoredTie& tie : report.ties) ties[tie.use] = tie.owner;
    return document({{"path", report.path},
                     {"steps", facts.steps},
                     {"samples", facts.samples},
                     {"samples_per_pass", facts.samples_per_pass},
                     {"saved_at", facts.saved_at},
                     {"program", facts.program},
                     {"fingerprint", facts.fingerprint},
                     {"mathematics_digest", facts.mathematics_digest},
                     {"data_digest", facts.data_digest},
                     {"digest", report.digest},
                     {"mathematics", keys_json(facts.mathematics)},
                     {"layout", keys_json(facts.layout)},
                     {"bytes", report.bytes},
                     {"shares", report.shares},
                     {"parameters", report.parameters},
                     {"chunk_elements", report.chunk_elements},
                     {"events", facts.history.size()},
                     {"tensors", tensors},
                     {"ties", ties}});
}

std::string to_json(const TensorReport& report) {
    Json values = Json::object();
    for (const ShownValue& each : report.values) {
        const Statistics& numbers = each.statistics;
        values[std::string{state::name_of(each.value)}] = {
            {"least", or_null(numbers.least())},  {"largest", or_null(numbers.largest())},
            {"mean", or_null(numbers.mean())},    {"rms", or_null(numbers.rms())},
            {"non_finite", numbers.non_finite()}, {"first", each.first}};
    }
    return document({{"path", report.path},
                     {"steps", report.steps},
                     {"tensor", tensor_json(report.tensor)},
                     {"chunks", report.chunks},
                     {"values", values}});
}

std::string to_json(const VerifyReport& report) {
    Json states = Json::array();
    for (const VerifiedState& each : report.states) {
        Json faults = Json::array();
        for (const state::Fault& fault : each.verified.faults) {
            faults.push_back(
                {{"file", fault.file}, {"place", fault.place}, {"reason", fault.reason}});
        }
        states.push_back({{"path", each.path},
                          {"whole", each.verified.faults.empty()},
                          {"bytes", each.verified.bytes},
                          {"weights", text_or_null(each.verified.weights)},
                          {"faults", faults}});
    }
    return document({{"whole", report.whole()}, {"states", states}});
}

std::string to_json(const DiffReport& report) {
    Json facts = Json::array();
    for (const FactDifference& each : report.facts) {
        facts.push_back({{"name", each.name}, {"a", each.a}, {"b", each.b}});
    }
    Json tensors = Json::array();
    for (const TensorDifference& each : report.tensors) {
        const Difference& numbers = each.numbers;
        tensors.push_back({{"name", each.name},
                           {"value", std::string{state::name_of(each.value)}},
                           {"mismatch", text_or_null(each.mismatch)},
                           {"shape", shape_json(each.shape)},
                           {"differing", numbers.differing()},
                           {"largest_absolute", numbers.largest_absolute()},
                           {"largest_relative", numbers.largest_relative()},
                           {"largest_at", or_null(numbers.largest_at())},
                           {"first_at", or_null(numbers.first())}});
    }
    return document({{"a", report.a},
                     {"b", report.b},
                     {"tolerance", or_null(report.tolerance)},
                     {"equal", report.equal()},
                     {"values", report.values},
                     {"values_read", report.values_read},
                     {"facts", facts},
                     {"tensors", tensors}});
}

std::string to_json(const HistoryReport& report) {
    return document({{"path", report.path}, {"history", history_json(report.history)}});
}

std::string to_json(const PruneReport& report) {
    return document({{"folder", report.folder},
                     {"keep", report.rule.last},
                     {"keep_every", report.rule.every},
                     {"dry_run", report.dry_run},
                     {"removed", listed_json(report.removed)},
                     {"kept", listed_json(report.kept)},
                     {"damaged", listed_json(report.damaged)}});
}

std::string to_json(const WrittenReport& report) {
    return document({{"from", report.from},
                     {"to", report.to},
                     {"what", report.what},
                     {"steps", report.steps},
                     {"parameters", report.parameters},
                     {"bytes", report.bytes}});
}

}  // namespace rhizome::cli
