// Executes a schedule with strings for numbers: slow, simple, and with nothing of the check in it.
// A value's text says what went into it ("((m0+m1)+(m2+m3))"), so in the end it is enough to
// compare texts with what must be there.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/schedule_values.hpp"

namespace rhizome::schedule::by_hand {

class ScheduleExecutor {
  public:
    ScheduleExecutor(const ScheduleCase& what, const Schedule& schedule,
                     std::optional<std::int32_t> messages_max)
        : case_{what},
          schedule_{schedule},
          shape_{schedule.shape},
          training_{what.purpose == Purpose::training},
          messages_max_{messages_max},
          expected_{what.table, schedule.shape.lanes},
          workers_(schedule.programs.size()) {}

    /// What is wrong, or nothing.
    [[nodiscard]] std::optional<std::string> run() {
        try {
            for (bool goes_on = true; goes_on;) {
                goes_on = false;
                for (std::size_t w = 0; w < workers_.size(); ++w) {
                    if (workers_[w].head < schedule_.programs[w].size() && advance(w)) {
                        goes_on = true;
                    }
                }
            }
            for (std::size_t w = 0; w < workers_.size(); ++w) look_at_result(w);
            for (const auto& [path, box] : boxes_) demand(box.empty(), "a message is left over");
        } catch (const Wrong& wrong) {
            return wrong.text;
        }
        return std::nullopt;
    }

  private:
    using Memory = std::map<std::string, std::string>;
    struct Worker {
        Memory memory;
        std::set<std::string> sums_used;
        std::size_t head = 0;
        bool committed = false;
    };
    struct Message {
        Instruction as_received;
        Memory payload;
    };

    const std::string& get(std::size_t w, const std::string& name) const {
        const auto found = workers_[w].memory.find(name);
        demand(found != workers_[w].memory.end(), name + " is not there");
        return found->second;
    }
    [[nodiscard]] bool has(std::size_t w, const std::string& name) const {
        return workers_[w].memory.contains(name);
    }
    void put(std::size_t w, const std::string& name, const std::string& value) {
        demand(workers_[w].memory.try_emplace(name, value).second, name + " for the second time");
    }

    bool advance(std::size_t w) {
        const Instruction& i = schedule_.programs[w][workers_[w].head];
        look_at_form(shape_, case_.purpose, w, i);
        const bool after = i.kind >= Kind::update;
        if (i.kind == Kind::commit) {
            if (!all_at_commit()) return false;
            commit(w);
        } else if (is_receive(i.kind)) {
            return receive(w, i);
        } else {
            demand(after == workers_[w].committed, "it is on the wrong side of commit");
            if (is_send(i.kind)) return send(w, i);
            if (i.kind == Kind::update) {
                update(w);
            } else {
                compute(w, i);
            }
        }
        ++workers_[w].head;
        return true;
    }

    /// What a stage gets from its neighbour `from`: by hand or by wire.
    const std::string& from_neighbour(std::size_t w, const PipelineShape& pipeline,
                                      std::int32_t from, const std::string& made,
                                      const std::string& received) const {
        const WorkerId neighbour = pipeline.stages[static_cast<std::size_t>(from)].worker;
        return get(w, neighbour == shape_.workers[w] ? made : received);
    }

    void compute(std::size_t w, const Instruction& i) {
        const PipelineShape& pipeline = pipeline_of(shape_, shape_.workers[w], i);
        const std::int32_t s = i.stage.value();
        const std::int32_t m = i.microbatch.value();
        const bool is_last = i.stage.index() + 1 == pipeline.stages.size();
        const LayerRange layers = pipeline.stages[i.stage.index()].layers;
        const std::string input =
            s == 0 ? "x" + std::to_string(m)
                   : from_neighbour(w, pipeline, s - 1, key("out", s - 1, m), key("in", s, m));
        if (i.kind == Kind::forward) {
            put(w, key("out", s, m), ExpectedValues::forward(input, layers));
            if (is_last)
                put(w, "loss " + std::to_string(m), "loss(" + get(w, key("out", s, m)) + ")");
            return;
        }
        const std::string output = get(w, key("out", s, m));
        if (i.kind == Kind::recompute) {
            demand(!has(w, key("dx", s, m)), "recomputed too late");
            put(w, key("recomputed", s, m), "");
            return;
        }
        const std::string gradient =
            is_last ? "g(" + output + ")"
                    : from_neighbour(w, pipeline, s + 1, key("dx", s + 1, m), key("grad", s, m));
        if (i.kind == Kind::backward || i.kind == Kind::backward_input) {
            put(w, key("dx", s, m), ExpectedValues::backward(gradient, layers));
        }
        if (i.kind == Kind::backward_input) return;
        demand(has(w, key("dx", s, m)), "weight part before input part");
        demand(m % shape_.lanes.length() == 0 || has(w, key("weighed", s, m - 1)),
               "weight part before that of the microbatch before it");
        put(w, key("weighed", s, m), "");
        for (std::int32_t k = layers.first; k < layers.last; ++k) {
            std::string& sum = workers_[w].memory["lane " + std::to_string(k) + " " +
                                                  std::to_string(m / shape_.lanes.length())];
            sum = ExpectedValues::add(
                sum,
                ExpectedValues::weight(ExpectedValues::forward(input, {layers.first, k}),
                                       ExpectedValues::backward(gradient, {k + 1, layers.last})));
        }
    }

    /// The sum over those lanes, from what this worker received or computed. "?" is missing.
    std::string tree(std::size_t w, std::int32_t layer, LaneRange lanes) {
        if (has(w, sum_key(layer, lanes))) {
            workers_[w].sums_used.insert(sum_key(layer, lanes));
            return get(w, sum_key(layer, lanes));
        }
        if (lanes.size() == 1) {
            const std::string lane =
                "lane " + std::to_string(layer) + " " + std::to_string(lanes.first);
            return has(w, lane) ? get(w, lane) : "?";
        }
        const std::int32_t middle = ExpectedValues::middle_of(lanes);
        return ExpectedValues::add(tree(w, layer, {lanes.first, middle}),
                                   tree(w, layer, {middle, lanes.last}));
    }

    std::string gradient(std::size_t w, ChunkRef chunk) {
        std::string text;
        for (const TensorRef use : case_.table.uses_of(chunk.tensor)) {
            text += "&" + tree(w, use.layer.value(), {0, shape_.lanes.lanes});
        }
        return text;
    }

    Memory payload_of(std::size_t w, const Instruction& i) {
        switch (i.kind) {
            case Kind::send_activation:
            case Kind::send_gradient:
                return wire(w, i);
            case Kind::send_sum:
                return sum(w, i);
            case Kind::send_parts:
                return parts(w);
            default:
                return parameters(w, *i.peer);
        }
    }

    Memory wire(std::size_t w, const Instruction& i) const {
        const PipelineShape& pipeline = pipeline_of(shape_, shape_.workers[w], i);
        const std::int32_t s = i.stage.value();
        const std::int32_t m = i.microbatch.value();
        if (i.kind == Kind::send_activation) {
            demand(i.stage.index() + 1 < pipeline.stages.size(), "no next stage");
            return {{key("in", s + 1, m), get(w, key("out", s, m))}};
        }
        demand(s > 0, "no stage before");
        return {{key("grad", s - 1, m), get(w, key("dx", s, m))}};
    }

    Memory sum(std::size_t w, const Instruction& i) {
        const PipelineShape& pipeline = pipeline_of(shape_, shape_.workers[w], i);
        const LaneRange lanes = i.lanes;
        demand(pipeline.lanes.first <= lanes.first && lanes.first < lanes.last &&
                   lanes.last <= pipeline.lanes.last,
               "lanes of another pipeline");
        const LayerRange layers = pipeline.stages[i.stage.index()].layers;
        Memory payload;
        for (std::int32_t k = layers.first; k < layers.last; ++k) {
            for (const OwnedChunk& owned : case_.owners.chunks) {
                if (!owns(*i.peer, owned) || !uses(case_.table, {k, k + 1}, owned)) continue;
                demand(!has(w, sum_key(k, lanes)), "forwards a sum");
                payload[sum_key(k, lanes)] = tree(w, k, lanes);
            }
        }
        demand(!payload.empty(), "a sum for nobody");
        return payload;
    }

    Memory parts(std::size_t w) {
        Memory payload;
        bool has_parts = false;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            if (!training_ || owned.owners.front() != shape_.workers[w]) continue;
            has_parts = true;
            payload[key("norm", owned.chunk)] = gradient(w, owned.chunk);
        }
        for (const PipelineShape& pipeline : shape_.pipelines) {
            if (pipeline.stages.back().worker != shape_.workers[w]) continue;
            has_parts = true;
            for (std::int32_t m = 0; m < shape_.lanes.microbatches; ++m) {
                const std::string name = "loss " + std::to_string(m);
                const bool is_mine = pipeline.lanes.first * shape_.lanes.length() <= m &&
                                     m < pipeline.lanes.last * shape_.lanes.length();
                if (is_mine) payload[name] = get(w, name);
            }
        }
        demand(has_parts, "no parts");
        return payload;
    }

    Memory parameters(std::size_t w, WorkerId to) const {
        Memory payload;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            if (owned.owners.front() != shape_.workers[w]) continue;
            if (owns(to, owned) || !holds(case_, to, owned)) continue;
            payload[key("new", owned.chunk)] = get(w, key("new", owned.chunk));
        }
        demand(!payload.empty(), "parameters for nobody");
        return payload;
    }

    bool send(std::size_t w, const Instruction& i) {
        const std::size_t to = shape_.place_of(*i.peer);
        Message message{.as_received = {}, .payload = payload_of(w, i)};
        message.as_received = counterpart(i, shape_.workers[w]);
        if (messages_max_ == 0) {
            const auto& program = schedule_.programs[to];
            const std::size_t head = workers_[to].head;
            if (head == program.size() || program[head] != message.as_received) return false;
            deliver(to, message);
        } else {
            auto& box = boxes_[{w, to}];
            if (messages_max_ && box.size() == static_cast<std::size_t>(*messages_max_)) {
                return false;
            }
            box.push_back(std::move(message));
        }
        ++workers_[w].head;
        return true;
    }

    bool receive(std::size_t w, const Instruction& i) {
        if (messages_max_ == 0) return false;  // its sender does it
        auto& box = boxes_[{shape_.place_of(*i.peer), w}];
        const auto found = std::find_if(box.begin(), box.end(),
                                        [&](const Message& one) { return one.as_received == i; });
        if (found == box.end()) return false;
        deliver(w, *found);
        box.erase(found);
        return true;
    }

    void deliver(std::size_t w, const Message& message) {
        demand((message.as_received.kind > Kind::commit) == workers_[w].committed,
               "received on the wrong side of commit");
        for (const auto& [name, value] : message.payload) put(w, name, value);
        ++workers_[w].head;
    }

    [[nodiscard]] bool all_at_commit() const {
        for (std::size_t w = 0; w < workers_.size(); ++w) {
            const auto& program = schedule_.programs[w];
            if (workers_[w].committed) continue;
            if (workers_[w].head == program.size()) return false;
            if (program[workers_[w].head].kind != Kind::commit) return false;
        }
        return true;
    }

    void commit(std::size_t w) {
        demand(!workers_[w].committed, "the second commit");
        workers_[w].committed = true;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            if (!owns(shape_.workers[w], owned)) continue;
            put(w, key("gradient", owned.chunk), gradient(w, owned.chunk));
            if (owned.owners.front() == shape_.workers[w]) {
                put(w, key("norm", owned.chunk), gradient(w, owned.chunk));
            }
        }
        look_at_parts(w);
        look_at_work(w);
        for (const auto& [name, value] : with_prefix(w, "sum ")) {
            demand(workers_[w].sums_used.contains(name), name + " is of no use");
        }
    }

    void update(std::size_t w) {
        bool has_chunks = false;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            if (!owns(shape_.workers[w], owned)) continue;
            has_chunks = true;
            put(w, key("new", owned.chunk), "new" + get(w, key("gradient", owned.chunk)));
        }
        demand(has_chunks, "nothing to update");
    }

    [[nodiscard]] Memory with_prefix(std::size_t w, const std::string& prefix) const {
        Memory found;
        for (const auto& entry : workers_[w].memory) {
            if (entry.first.starts_with(prefix)) found.insert(entry);
        }
        return found;
    }

    void look_at_parts(std::size_t w) const {
        Memory losses;
        for (std::int32_t m = 0; m < shape_.lanes.microbatches; ++m) {
            losses["loss " + std::to_string(m)] = expected_.loss(m);
        }
        demand(with_prefix(w, "loss ") == losses, "losses");
        Memory norms;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            if (training_) norms[key("norm", owned.chunk)] = expected_.gradient(owned.chunk);
        }
        demand(with_prefix(w, "norm ") == norms, "norms");
    }

    /// Each stage has computed and received what is its own, and nothing else.
    void look_at_work(std::size_t w) const {
        std::set<std::string> names;
        const std::int32_t length = shape_.lanes.length();
        for (const PipelineShape& pipeline : shape_.pipelines) {
            const auto depth = static_cast<std::int32_t>(pipeline.stages.size());
            const auto worker = [&](std::int32_t s) {
                return pipeline.stages[static_cast<std::size_t>(s)].worker;
            };
            for (std::int32_t s = 0; s < depth; ++s) {
                if (worker(s) != shape_.workers[w]) continue;
                for (std::int32_t m = pipeline.lanes.first * length;
                     m < pipeline.lanes.last * length; ++m) {
                    names.insert(key("out", s, m));
                    if (s > 0 && worker(s - 1) != worker(s)) names.insert(key("in", s, m));
                    if (!training_) continue;
                    names.insert({key("dx", s, m), key("weighed", s, m)});
                    if (s + 1 < depth && worker(s + 1) != worker(s)) {
                        names.insert(key("grad", s, m));
                    }
                }
            }
        }
        std::set<std::string> found;
        for (const char* prefix : {"out ", "in ", "dx ", "weighed ", "grad "}) {
            for (const auto& entry : with_prefix(w, prefix)) found.insert(entry.first);
        }
        demand(found == names, "work");
    }

    void look_at_result(std::size_t w) const {
        demand(workers_[w].head == schedule_.programs[w].size(), "stuck");
        look_at_parts(w);
        look_at_work(w);
        if (!training_) return;
        demand(workers_[w].committed, "never committed");
        Memory parameters;
        for (const OwnedChunk& owned : case_.owners.chunks) {
            const WorkerId self = shape_.workers[w];
            if (!owns(self, owned) && !holds(case_, self, owned)) continue;
            parameters[key("new", owned.chunk)] = "new" + expected_.gradient(owned.chunk);
        }
        demand(with_prefix(w, "new ") == parameters, "parameters");
    }

    const ScheduleCase& case_;
    const Schedule& schedule_;
    const RunShape& shape_;
    bool training_;
    std::optional<std::int32_t> messages_max_;
    ExpectedValues expected_;
    std::vector<Worker> workers_;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Message>> boxes_;
};

}  // namespace rhizome::schedule::by_hand
