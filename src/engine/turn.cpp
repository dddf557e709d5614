#include "engine/turn.hpp"

#include <cmath>

namespace rhizome::engine {

using device::Tensor;
using device::Work;
using schedule::Kind;

Nanoseconds Turn::host_time() const { return bench_.messenger.world().clock().now(); }

Nanoseconds Turn::device_time() const {
    return bench_.stream.record()->due().value_or(host_time());
}

void Turn::begin_computing() {
    if (bench_.recorder == nullptr || computed_) return;
    const Nanoseconds begin = device_time();
    computed_ = {begin, begin};
}

void Turn::end_computing() {
    if (computed_) computed_->end = device_time();
}

CommStatus Turn::run() {
    Recorder* recorder = bench_.recorder;
    if (recorder == nullptr) return run_list();
    const bool trains = task_.pass.mode == model::Pass::Mode::train;
    recorder->begin_turn(trains ? TurnKind::step : TurnKind::evaluation, task_.pass.step);
    const Nanoseconds begin = host_time();
    const CommStatus status = run_list();
    if (status == CommStatus::ok) recorder->end_turn({begin, host_time()});
    return status;
}

CommStatus Turn::run_list() {
    for (const Operation& operation : program_.operations) {
        bench_.pulse();
        if (bench_.probe) pass(operation.what.kind);
        const CommStatus status =
            bench_.recorder == nullptr ? execute(operation) : execute_recorded(operation);
        if (status != CommStatus::ok) return status;
    }
    return finish();
}

void Turn::pass(Kind kind) {
    const bool trains = task_.pass.mode == model::Pass::Mode::train;
    bench_.probe({.phase = trains ? Phase::step : Phase::evaluation,
                  .step = task_.pass.step.value(),
                  .kind = kind,
                  .index = passed_[kind]++});
}

CommStatus Turn::execute_recorded(const Operation& operation) {
    computed_.reset();
    const Nanoseconds begin = host_time();
    const CommStatus status = execute(operation);
    if (status == CommStatus::ok) {
        bench_.recorder->instruction(operation.what,
                                     computed_.value_or(Interval{begin, host_time()}));
    }
    return status;
}

CommStatus Turn::execute(const Operation& operation) {
    const Kind kind = operation.what.kind;
    if (schedule::is_compute(kind)) return compute(operation);
    if (schedule::is_wire(kind)) return wire(operation);
    switch (kind) {
        case Kind::send_sum:
            return send_bundle(operation);
        case Kind::send_parameters:
            // After a step that was not committed there is nothing new.
            return committed_ ? send_bundle(operation) : CommStatus::ok;
        case Kind::receive_sum:
        case Kind::receive_parts:
            return receive(operation);
        case Kind::receive_parameters:
            return committed_ ? receive(operation) : CommStatus::ok;
        case Kind::send_parts:
            return send_parts(operation);
        case Kind::commit:
            return commit();
        case Kind::update:
            ENSURE(task_.optimizer != nullptr);
            if (committed_) {
                begin_computing();
                bench_.exchange.update(bench_.stream, *task_.optimizer, task_.pass.step,
                                       gradient_norm());
                end_computing();
            }
            return CommStatus::ok;
        default:
            break;
    }
    ENSURE(false && "an instruction of an unknown kind");
    return CommStatus::ok;
}

// --- microbatches through layers ---

model::Pass Turn::pass_of(Microbatch microbatch) const {
    model::Pass pass = task_.pass;
    pass.microbatch = microbatch;
    return pass;
}

StageMemory::Place Turn::place_of(Stage& stage, Microbatch microbatch) const {
    const Stage::Open& open = stage.at(microbatch);
    ENSURE(open.work_area.has_value());
    const Tensor loss = bench_.losses.slice(microbatch.value(), 1);
    return {open.slot, *open.work_area, {loss.data, Shape{}, loss.dtype}};
}

CommStatus Turn::open_slot(Stage& stage, Microbatch microbatch) {
    stage.open(microbatch);
    return bench_.messenger.wait_until_sent(stage.in_flight(stage.at(microbatch).slot));
}

CommStatus Turn::load(Stage& stage, Microbatch microbatch) {
    const std::size_t slot = stage.at(microbatch).slot;
    if (const device::Event* loaded = stage.memory().loaded(slot)) {
        const CommStatus status = bench_.messenger.wait(*loaded);
        if (status != CommStatus::ok) return status;
    }
    stage.memory().load(bench_.stream, slot, task_.dataset, task_.samples(microbatch));
    return CommStatus::ok;
}

void Turn::copy_wires(std::span<const Tensor> to, std::span<const Tensor> from) {
    ENSURE(to.size() == from.size());
    for (std::size_t i = 0; i < to.size(); ++i) bench_.stream.copy(to[i], from[i]);
}

void Turn::look_up() {
    bench_.pulse();
    bench_.messenger.move_along();
}

CommStatus Turn::compute(const Operation& operation) {
    const Microbatch microbatch = operation.what.microbatch;
    Stage& stage = stage_of(operation.what.stage);
    CommStatus status = CommStatus::ok;
    if (operation.memory.opens_slot) status = open_slot(stage, microbatch);
    if (status != CommStatus::ok) return status;
    if (operation.memory.opens_work_area) stage.open_work_area(microbatch);
    switch (operation.what.kind) {
        case Kind::forward:
            status = forward(stage, operation);
            break;
        case Kind::recompute:
            repeat_forward(stage, microbatch);
            break;
        case Kind::backward:
            status = backward_input(stage, operation);
            if (status == CommStatus::ok) backward_weight(stage, microbatch);
            break;
        case Kind::backward_input:
            status = backward_input(stage, operation);
            break;
        default:
            backward_weight(stage, microbatch);
            break;
    }
    bench_.stream.begin({});
    if (operation.memory.closes_work_area) stage.close_work_area(microbatch);
    if (operation.memory.closes_slot) stage.close(microbatch);
    return status;
}

CommStatus Turn::forward(Stage& stage, const Operation& operation) {
    const Microbatch microbatch = operation.what.microbatch;
    if (const CommStatus status = load(stage, microbatch); status != CommStatus::ok) return status;
    if (const auto receipt = stage.at(microbatch).activation) {
        const CommStatus status = bench_.messenger.wait(*receipt);
        if (status != CommStatus::ok) return status;
    }
    repeat_forward(stage, microbatch);
    if (!operation.memory.hands_on_activation) return CommStatus::ok;
    Stage& next = stage_of(StageId{operation.what.stage.value() + 1});
    const CommStatus status = open_slot(next, microbatch);
    copy_wires(next.memory().entering(next.at(microbatch).slot),
               stage.memory().leaving(stage.at(microbatch).slot));
    return status;
}

void Turn::repeat_forward(Stage& stage, Microbatch microbatch) {
    begin_computing();
    const StageMemory::Place place = place_of(stage, microbatch);
    for (std::int32_t layer = stage.layers().first; layer < stage.layers().last; ++layer) {
        bench_.stream.begin({.part = Work::Part::forward, .layer = LayerId{layer}});
        stage.memory().forward(bench_.stream, pass_of(microbatch), LayerId{layer}, place,
                               bench_.parameters);
        look_up();
    }
    end_computing();
}

CommStatus Turn::backward_input(Stage& stage, const Operation& operation) {
    const Microbatch microbatch = operation.what.microbatch;
    if (const auto receipt = stage.at(microbatch).gradient) {
        const CommStatus status = bench_.messenger.wait(*receipt);
        if (status != CommStatus::ok) return status;
    }
    begin_computing();
    const StageMemory::Place place = place_of(stage, microbatch);
    for (std::int32_t layer = stage.layers().last; layer-- > stage.layers().first;) {
        bench_.stream.begin({.part = Work::Part::backward_input, .layer = LayerId{layer}});
        stage.memory().backward_input(bench_.stream, pass_of(microbatch), LayerId{layer}, place,
                                      bench_.parameters);
        look_up();
    }
    end_computing();
    if (operation.memory.hands_on_gradient) {
        Stage& before = stage_of(StageId{operation.what.stage.value() - 1});
        copy_wires(before.memory().leaving_gradients(before.at(microbatch).slot),
                   stage.memory().entering_gradients(place.slot));
    }
    return CommStatus::ok;
}

void Turn::backward_weight(Stage& stage, Microbatch microbatch) {
    begin_computing();
    const model::TensorSet& sum = stage.gradients().accumulator(bench_.stream, microbatch);
    const StageMemory::Place place = place_of(stage, microbatch);
    for (std::int32_t layer = stage.layers().last; layer-- > stage.layers().first;) {
        bench_.stream.begin({.part = Work::Part::backward_weight, .layer = LayerId{layer}});
        stage.memory().backward_weight(bench_.stream, pass_of(microbatch), LayerId{layer}, place,
                                       bench_.parameters, sum);
        look_up();
    }
    bench_.stream.begin({});
    stage.gradients().done(bench_.stream, microbatch);
    end_computing();
}

CommStatus Turn::wire(const Operation& operation) {
    const auto& [what, tag, memory] = operation;
    ENSURE(what.peer.has_value());
    Stage& stage = stage_of(what.stage);
    if (memory.opens_slot) {
        const CommStatus status = open_slot(stage, what.microbatch);
        if (status != CommStatus::ok) return status;
    }
    Stage::Open& open = stage.at(what.microbatch);
    Messenger& messenger = bench_.messenger;
    const StageMemory& wires = stage.memory();
    switch (what.kind) {
        case Kind::send_activation:
            messenger.send(*what.peer, tag, wires.leaving(open.slot), bench_.stream.record(),
                           &stage.in_flight(open.slot));
            break;
        case Kind::send_gradient:
            messenger.send(*what.peer, tag, wires.entering_gradients(open.slot),
                           bench_.stream.record(), &stage.in_flight(open.slot));
            break;
        case Kind::receive_activation:
            open.activation = messenger.receive(*what.peer, tag, wires.entering(open.slot));
            break;
        default:
            open.gradient = messenger.receive(*what.peer, tag, wires.leaving_gradients(open.slot));
            break;
    }
    if (memory.closes_slot) stage.close(what.microbatch);
    return CommStatus::ok;
}

// --- the end of a step ---

ChunkExchange::LocalSum Turn::local_sums() const {
    return [this](StageId stage, LaneRange lanes) -> const model::TensorSet& {
        return stage_of(stage).gradients().of(lanes);
    };
}

CommStatus Turn::receive(const Operation& operation) {
    ENSURE(operation.what.peer.has_value());
    const WorkerId peer = *operation.what.peer;
    const bool is_parts = operation.what.kind == Kind::receive_parts;
    const Tensor to =
        is_parts ? bench_.parts.incoming(peer) : bench_.exchange.bundle_of(operation.what);
    auto& awaited = is_parts                                   ? parts_
                    : operation.what.kind == Kind::receive_sum ? sums_
                                                               : parameters_;
    awaited.push_back(
        {&operation, bench_.messenger.receive(peer, operation.tag, std::span{&to, 1})});
    return CommStatus::ok;
}

CommStatus Turn::wait_for(std::vector<Awaited>& awaited) {
    for (const Awaited& each : awaited) {
        const CommStatus status = bench_.messenger.wait(each.receipt);
        if (status != CommStatus::ok) return status;
    }
    return CommStatus::ok;
}

CommStatus Turn::send_bundle(const Operation& operation) {
    ENSURE(operation.what.peer.has_value());
    bench_.exchange.pack(bench_.stream, operation.what, local_sums());
    const Tensor bundle = bench_.exchange.bundle_of(operation.what);
    bench_.messenger.send(*operation.what.peer, operation.tag, std::span{&bundle, 1},
                          bench_.stream.record(), nullptr);
    return CommStatus::ok;
}

CommStatus Turn::make_parts() {
    if (parts_made_) return CommStatus::ok;
    parts_made_ = true;
    const Parts& parts = bench_.parts;
    const auto losses =
        static_cast<std::size_t>(parts.last_microbatch() - parts.first_microbatch());
    numbers_.resize(losses + parts.chunks().size());
    const std::span<double> numbers{numbers_};
    if (task_.optimizer != nullptr) {
        if (const CommStatus status = wait_for(sums_); status != CommStatus::ok) return status;
        used_sums_ = true;
        bench_.exchange.add_up(bench_.stream, local_sums());
        if (!parts.chunks().empty()) {
            bench_.exchange.squares(bench_.stream, parts.chunks(), bench_.squares);
            bench_.stream.download(std::as_writable_bytes(numbers.subspan(losses)), bench_.squares);
        }
    }
    if (losses > 0) {
        bench_.stream.download(
            std::as_writable_bytes(numbers.first(losses)),
            bench_.losses.slice(parts.first_microbatch(), static_cast<std::int64_t>(losses)));
    }
    const CommStatus status = bench_.messenger.wait(*bench_.stream.record());
    if (status == CommStatus::ok) {
        bench_.parts.set_mine(numbers.first(losses), numbers.subspan(losses));
    }
    return status;
}

CommStatus Turn::send_parts(const Operation& operation) {
    ENSURE(operation.what.peer.has_value());
    if (const CommStatus status = make_parts(); status != CommStatus::ok) return status;
    const Tensor parts = bench_.parts.outgoing();
    bench_.messenger.send(*operation.what.peer, operation.tag, std::span{&parts, 1},
                          bench_.stream.record(), nullptr);
    return CommStatus::ok;
}

CommStatus Turn::collect_parts() {
    if (const CommStatus status = make_parts(); status != CommStatus::ok) return status;
    if (const CommStatus status = wait_for(parts_); status != CommStatus::ok) return status;
    for (const Awaited& each : parts_) {
        const std::optional<WorkerId>& sender = each.operation->what.peer;
        ENSURE(sender.has_value());
        bench_.parts.take(*sender);
    }
    parts_.clear();
    return CommStatus::ok;
}

CommStatus Turn::commit() {
    if (const CommStatus status = collect_parts(); status != CommStatus::ok) return status;
    // An agreement moves only what has left the device; somebody may still need the rest for it.
    Messenger& messenger = bench_.messenger;
    if (const CommStatus status = messenger.drain(); status != CommStatus::ok) return status;
    const Votes mine = (task_.votes & ~vote::finite) | (is_finite() ? vote::finite : 0);
    const auto [status, all] = agree_on(messenger, mine);
    agreement_ = status;
    votes_ = all;
    committed_ = status == CommStatus::ok && (all & vote::finite) != 0;
    return status;
}

CommStatus Turn::finish() {
    if (const CommStatus status = collect_parts(); status != CommStatus::ok) return status;
    if (const CommStatus status = wait_for(parameters_); status != CommStatus::ok) return status;
    for (const Awaited& each : parameters_) {
        bench_.exchange.unpack(bench_.stream, each.operation->what);
    }
    if (const CommStatus status = bench_.messenger.drain(); status != CommStatus::ok) return status;
    return bench_.messenger.wait(*bench_.stream.record());
}

double Turn::mean_loss() const {
    return bench_.parts.loss() / static_cast<double>(task_.loss_terms);
}

double Turn::gradient_norm() const { return std::sqrt(bench_.parts.squares()); }

bool Turn::is_finite() const {
    return std::isfinite(mean_loss()) && std::isfinite(gradient_norm());
}

}  // namespace rhizome::engine
