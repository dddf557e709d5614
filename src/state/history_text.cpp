#include "state/history_text.hpp"

#include <nlohmann/json.hpp>

namespace rhizome::state {
namespace {

using Json = nlohmann::ordered_json;

const std::string* text_in(const Json& object, const char* key) {
    const auto value = object.find(key);
    return value == object.end() ? nullptr : value->get_ptr<const std::string*>();
}

std::optional<Event> parse_event(std::string_view line) {
    // Nothing nested: it could be as deep as the line is long, and JSON is copied by recursion.
    const auto take = [](int depth, Json::parse_event_t at, const Json& /*json*/) {
        return depth == 0 || at == Json::parse_event_t::key || at == Json::parse_event_t::value;
    };
    const Json object = Json::parse(line, take, /*allow_exceptions=*/false);
    if (!object.is_object() || object.size() != 4) return std::nullopt;
    const std::string* time = text_in(object, "time");
    const std::string* kind = text_in(object, "kind");
    const std::string* text = text_in(object, "text");
    const auto steps = object.find("steps");
    if (time == nullptr || kind == nullptr || text == nullptr || steps == object.end() ||
        !steps->is_number_unsigned() || steps->get<std::uint64_t>() > INT32_MAX) {
        return std::nullopt;
    }
    return Event{*time, steps->get<std::int32_t>(), *kind, *text};
}

}  // namespace

std::string history_text(const std::vector<Event>& history) {
    std::string text;
    for (const Event& event : history) {
        const Json object{{"time", event.time},
                          {"steps", static_cast<std::uint64_t>(event.steps)},
                          {"kind", event.kind},
                          {"text", event.text}};
        text += object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    return text;
}

std::optional<std::vector<Event>> parse_history(std::string_view text) {
    std::vector<Event> history;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) return std::nullopt;
        auto event = parse_event(text.substr(0, end));
        if (!event) return std::nullopt;
        history.push_back(std::move(*event));
        text.remove_prefix(end + 1);
    }
    return history;
}

}  // namespace rhizome::state
