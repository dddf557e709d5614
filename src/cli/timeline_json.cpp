// Timelines to JSON and back. Each worker is a process of the trace (its number plus one, since
// viewers keep number 0 for themselves); what may overlap is spread over several threads of it, so
// that no viewer has to guess what lies within what.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/timeline_data.hpp"

namespace rhizome::cli {
namespace {

using engine::Awaited;
using engine::Direction;
using schedule::Instruction;
using schedule::Kind;
/// Keeps the order in which its members were given.
using Json = nlohmann::ordered_json;

constexpr std::string_view format_name = "rhizome timeline";
constexpr std::int32_t format_version = 1;
constexpr std::int32_t threads_max = 10'000;               // of a worker
constexpr Nanoseconds origin_max{std::int64_t{1} << 62U};  // sums and differences have room
constexpr std::int32_t instruction_kinds = 17;
constexpr int depth_max = 8;  // JSON is copied by recursion

constexpr std::array<std::string_view, 7> row_names{"step", "compute", "exchange", "wait",
                                                    "send", "receive", "other"};
constexpr std::array<std::string_view, 4> awaited_names{"message", "device", "buffer", "sends"};

std::string_view name_of(TimelineRow row) { return row_names[static_cast<std::size_t>(row)]; }

std::string name_of(const engine::Wait& wait) {
    switch (wait.what) {
        case Awaited::message:
            return "for " + (wait.peer ? std::to_string(wait.peer->value()) : "nobody");
        case Awaited::device:
            return "for the device";
        case Awaited::buffer:
            return "for a buffer";
        default:
            return "until all is sent";
    }
}

double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

/// Name and details of an event.
struct Describe {
    std::int32_t step;

    [[nodiscard]] Json with(std::string name, Json arguments) const {
        arguments["step"] = step;
        return {{"name", std::move(name)}, {"args", std::move(arguments)}};
    }
    Json operator()(engine::TurnKind kind) const {
        if (kind == engine::TurnKind::evaluation) return with("evaluation", Json::object());
        return with("step " + std::to_string(step), Json::object());
    }
    Json operator()(const Instruction& what) const {
        Json arguments{{"kind", schedule::word_of(what.kind)}};
        const bool sums = schedule::is_sum(what.kind);
        const bool moves = schedule::is_compute(what.kind) || schedule::is_wire(what.kind);
        if (moves || sums) arguments["stage"] = what.stage.value();
        if (moves) arguments["microbatch"] = what.microbatch.value();
        if (sums) arguments["lanes"] = {what.lanes.first, what.lanes.last - 1};
        if (what.peer) arguments["peer"] = what.peer->value();
        return with(schedule::to_text(what), std::move(arguments));
    }
    Json operator()(const engine::Wait& what) const {
        Json arguments{{"for", awaited_names[static_cast<std::size_t>(what.what)]}};
        if (what.peer) arguments["peer"] = what.peer->value();
        return with(name_of(what), std::move(arguments));
    }
    Json operator()(const engine::Transfer& what) const {
        return with((what.direction == Direction::send ? "to " : "from ") +
                        std::to_string(what.peer.value()),
                    {{"peer", what.peer.value()}, {"tag", what.tag}, {"bytes", what.bytes}});
    }
    Json operator()(const std::string& name) const { return with(name, Json::object()); }
};

/// The same at both ends of a message. Numbers of trace viewers have 53 bits.
std::uint64_t flow_of(std::int32_t step, WorkerId from, WorkerId to, std::int32_t tag) {
    std::uint64_t hash = 14695981039346656037U;
    for (const std::int32_t each : {step, from.value(), to.value(), tag}) {
        hash = (hash ^ static_cast<std::uint32_t>(each)) * 1099511628211U;
    }
    return hash >> 11U;
}

class Writer {
  public:
    explicit Writer(const std::function<void(std::string_view)>& write) : write_{write} {}

    void add(const Timeline& timeline) {
        Json facts{{"format", format_name},
                   {"version", format_version},
                   {"first_step", timeline.steps.first},
                   {"last_step", timeline.steps.last},
                   {"origin_ns", timeline.origin.count()},
                   {"members", Json::array()},
                   {"left_out", Json::array()}};
        for (const WorkerId member : timeline.members) facts["members"].push_back(member.value());
        for (const WorkerTimeline& worker : timeline.workers) {
            facts["left_out"].push_back({worker.worker.value(), worker.left_out});
        }
        text_ =
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":" + facts.dump() + ",\n\"traceEvents\":[";
        for (const WorkerTimeline& worker : timeline.workers) add(worker);
        write_(text_ + "\n]}\n");
    }

  private:
    /// Rows in their order, each spread over as many threads as it needs.
    void add(const WorkerTimeline& worker) {
        worker_ = worker.worker;
        threads_ = 0;
        name("process", 0, "worker " + std::to_string(worker_.value()));
        std::map<std::pair<TimelineRow, std::string>, std::vector<const TimelineSpan*>> rows;
        for (const TimelineSpan& span : worker.spans) {
            const TimelineRow row = row_of(span);
            const auto* other = std::get_if<std::string>(&span.what);
            rows[{row, other != nullptr ? *other : std::string{name_of(row)}}].push_back(&span);
        }
        for (auto& [row, spans] : rows) add(row.second, spans);
    }

    void add(const std::string& row, std::vector<const TimelineSpan*>& spans) {
        std::stable_sort(spans.begin(), spans.end(), [](const auto* one, const auto* two) {
            return one->when.begin < two->when.begin;
        });
        std::vector<Nanoseconds> ends;  // by thread of this row
        const std::int32_t first = threads_;
        for (const TimelineSpan* span : spans) {
            auto thread = std::find_if(ends.begin(), ends.end(),
                                       [&](Nanoseconds end) { return end <= span->when.begin; });
            if (thread == ends.end()) {
                if (threads_ + 1 < threads_max) {
                    name("thread", threads_++,
                         row + (ends.empty() ? "" : " " + std::to_string(ends.size() + 1)));
                    ends.push_back(span->when.end);
                }
                thread = ends.end() - 1;
            }
            *thread = span->when.end;
            add(*span, first + static_cast<std::int32_t>(thread - ends.begin()));
        }
    }

    void add(const TimelineSpan& span, std::int32_t thread) {
        Json event = std::visit(Describe{span.step}, span.what);
        event["cat"] = name_of(row_of(span));
        event["ph"] = "X";
        event["ts"] = microseconds(span.when.begin);
        event["dur"] = microseconds(span.when.end - span.when.begin);
        put(std::move(event), thread);
        const auto* transfer = std::get_if<engine::Transfer>(&span.what);
        if (transfer == nullptr) return;
        // An arrow from where a send begins to where its receive ends.
        const bool sends = transfer->direction == Direction::send;
        const Nanoseconds almost_end = std::max(span.when.begin, span.when.end - Nanoseconds{1});
        Json arrow{{"name", "message"},
                   {"cat", "message"},
                   {"ph", sends ? "s" : "f"},
                   {"id", sends ? flow_of(span.step, worker_, transfer->peer, transfer->tag)
                                : flow_of(span.step, transfer->peer, worker_, transfer->tag)},
                   {"ts", microseconds(sends ? span.when.begin : almost_end)}};
        if (!sends) arrow["bp"] = "e";
        put(std::move(arrow), thread);
    }

    void name(const std::string& what, std::int32_t thread, const std::string& name) {
        put({{"name", what + "_name"}, {"ph", "M"}, {"args", {{"name", name}}}}, thread);
        put({{"name", what + "_sort_index"},
             {"ph", "M"},
             {"args", {{"sort_index", what == "process" ? worker_.value() : thread}}}},
            thread);
    }

    void put(Json event, std::int32_t thread) {
        event["pid"] = worker_.value() + 1;
        event["tid"] = std::int64_t{threads_max} * (worker_.value() + 1) + thread;
        text_ +=
            (is_first_ ? "\n" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
        is_first_ = false;
        if (text_.size() < std::size_t{1} << 20U) return;
        write_(text_);
        text_.clear();
    }

    const std::function<void(std::string_view)>& write_;
    std::string text_;
    bool is_first_ = true;
    WorkerId worker_{0};
    std::int32_t threads_ = 0;
};

/// Of what should be a timeline.
struct Unreadable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class Value>
Value number(const Json& json) {
    if (!json.is_number_integer() || json < 0 || json > std::numeric_limits<Value>::max()) {
        // What it is instead may be as deep as the file is long, and is not shown.
        throw Unreadable{"has something else where a whole number should be"};
    }
    return json.get<Value>();
}

std::int32_t number_of(const Json& object, const char* key) {
    return number<std::int32_t>(object.at(key));
}

std::optional<WorkerId> peer_of(const Json& arguments) {
    if (!arguments.contains("peer")) return std::nullopt;
    return WorkerId{number_of(arguments, "peer")};
}

Nanoseconds time_of(const Json& json) {
    constexpr double time_us_max = static_cast<double>(timeline_time_max.count()) / 1000;
    const double time_us = json.is_number() ? json.get<double>() : -1;
    if (!(time_us >= 0 && time_us <= time_us_max)) throw Unreadable{"has a time that is none"};
    return Nanoseconds{std::llround(time_us * 1000)};
}

engine::Interval interval_of(const Json& event) {
    const Nanoseconds begin = time_of(event.at("ts"));
    const Nanoseconds end = begin + time_of(event.at("dur"));
    if (end > timeline_time_max) throw Unreadable{"has a time that is none"};
    return {begin, end};
}

LaneRange lanes_of(const Json& json) {
    const auto first = number<std::int32_t>(json.at(0));
    const auto last = number<std::int32_t>(json.at(1));
    if (last < first || last == std::numeric_limits<std::int32_t>::max()) {
        throw Unreadable{"has lanes that there cannot be"};
    }
    return {first, last + 1};
}

Instruction instruction_of(const Json& arguments) {
    const std::string word = arguments.at("kind").get<std::string>();
    for (std::int32_t each = 0; each < instruction_kinds; ++each) {
        const auto kind = static_cast<Kind>(each);
        if (schedule::word_of(kind) != word) continue;
        Instruction what{.kind = kind};
        if (schedule::is_send(kind) || schedule::is_receive(kind)) what.peer = peer_of(arguments);
        if (arguments.contains("stage")) what.stage = StageId{number_of(arguments, "stage")};
        if (arguments.contains("microbatch")) {
            what.microbatch = Microbatch{number_of(arguments, "microbatch")};
        }
        if (schedule::is_sum(kind)) what.lanes = lanes_of(arguments.at("lanes"));
        return what;
    }
    throw Unreadable{"has an instruction of no kind"};
}

engine::Wait wait_of(const Json& arguments) {
    const std::string word = arguments.at("for").get<std::string>();
    const auto found = std::find(awaited_names.begin(), awaited_names.end(), word);
    if (found == awaited_names.end()) throw Unreadable{"has a wait for nothing"};
    return {static_cast<Awaited>(found - awaited_names.begin()), peer_of(arguments)};
}

TimelineWhat what_of(std::string_view row, const Json& event) {
    const Json& arguments = event.at("args");
    if (row == "compute" || row == "exchange") return instruction_of(arguments);
    if (row == "wait") return wait_of(arguments);
    if (row == "send" || row == "receive") {
        return engine::Transfer{row == "send" ? Direction::send : Direction::receive,
                                WorkerId{number_of(arguments, "peer")}, number_of(arguments, "tag"),
                                number<std::int64_t>(arguments.at("bytes"))};
    }
    auto name = event.at("name").get<std::string>();
    if (row == "other") return name;
    return name == "evaluation" ? engine::TurnKind::evaluation : engine::TurnKind::step;
}

class Reader {
  public:
    Timeline read(std::string_view text) {
        // Events are taken out as they come: kept as JSON they would be ten times as large.
        const auto take = [this](int depth, Json::parse_event_t at, Json& json) {
            if (depth > depth_max) throw Unreadable{"is nested deeper than a timeline"};
            if (depth != 2 || at != Json::parse_event_t::object_end) return true;
            take_event(json);
            return false;
        };
        const Json rest = Json::parse(text, take, false);
        if (rest.is_discarded()) throw Unreadable{"is no JSON, or breaks off"};
        if (!rest.is_object() || !rest.contains("otherData") || !rest.contains("traceEvents")) {
            throw Unreadable{"is no timeline"};
        }
        const Json& facts = rest.at("otherData");
        if (facts.at("format") != format_name || facts.at("version") != format_version) {
            throw Unreadable{"is no timeline of a version that is known here"};
        }
        Timeline timeline{.steps = {number_of(facts, "first_step"), number_of(facts, "last_step")},
                          .origin = Nanoseconds{number<std::int64_t>(facts.at("origin_ns"))}};
        if (timeline.origin > origin_max) throw Unreadable{"comes from too far in the future"};
        for (const Json& member : facts.at("members")) {
            timeline.members.emplace_back(number<std::int32_t>(member));
        }
        for (const Json& each : facts.at("left_out")) {
            workers_.try_emplace(number<std::int32_t>(each.at(0))).first->second.left_out =
                number<std::int64_t>(each.at(1));
        }
        for (auto& [worker, found] : workers_) {
            timeline.workers.push_back({WorkerId{worker}, std::move(found.spans), found.left_out});
        }
        return timeline;
    }

  private:
    struct Found {
        std::vector<TimelineSpan> spans;
        std::int64_t left_out = 0;
    };

    void take_event(const Json& event) {
        if (!event.contains("ph") || event.at("ph") != "X") return;
        const std::string row = event.at("cat").get<std::string>();
        if (std::find(row_names.begin(), row_names.end(), row) == row_names.end()) return;
        if (++spans_ > timeline_spans_max) {
            throw Unreadable{"has more than " + std::to_string(timeline_spans_max) + " spans"};
        }
        const engine::Interval when = interval_of(event);
        const std::int32_t process = number_of(event, "pid");
        if (process < 1) throw Unreadable{"has a process of number 0"};
        workers_[process - 1].spans.push_back(
            {number_of(event.at("args"), "step"), when, what_of(row, event)});
    }

    std::map<std::int32_t, Found> workers_;
    std::int64_t spans_ = 0;
};

}  // namespace

void write_json(const Timeline& timeline, const std::function<void(std::string_view)>& write) {
    Writer{write}.add(timeline);
}

std::variant<Timeline, NoTimeline> parse_timeline(std::string_view text) {
    try {
        return Reader{}.read(text);
    } catch (const Unreadable& error) {
        return NoTimeline{error.what()};
    } catch (const Json::exception&) {
        return NoTimeline{"lacks something, or has it in another form"};
    }
}

}  // namespace rhizome::cli
