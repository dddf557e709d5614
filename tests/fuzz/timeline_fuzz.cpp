// Whatever a timeline's file says, it is refused in one line or means one thing: it is the same
// after it was written again, can be put together with another one, and has a table and a picture.
#include <stdexcept>

#include "cli/timeline_data.hpp"
#include "cli/timeline_shares.hpp"
#include "cli/timeline_svg.hpp"
#include "core/text.hpp"
#include "fuzz/target.hpp"

namespace rhizome::fuzz {
namespace {

using cli::Timeline;
using engine::Interval;
using schedule::Instruction;
using schedule::Kind;

constexpr std::int32_t picture_width = cli::picture_width_min;

std::string json_of(const Timeline& timeline) {
    std::string json;
    write_json(timeline, [&](std::string_view piece) { json += piece; });
    return json;
}

/// In the order of a file: rows, then times.
Timeline as_read(const Timeline& timeline) {
    auto read = cli::parse_timeline(json_of(timeline));
    if (const auto* refused = std::get_if<cli::NoTimeline>(&read)) {
        throw std::runtime_error{"what was written cannot be read: " + refused->reason};
    }
    return std::move(std::get<Timeline>(read));
}

Timeline sample() {
    const auto at = [](std::int64_t begin, std::int64_t end) {
        return Interval{Nanoseconds{begin}, Nanoseconds{end}};
    };
    Timeline timeline{.steps = {2, 3},
                      .members = {WorkerId{0}, WorkerId{1}},
                      .origin = Nanoseconds{1'700'000'000'000'000'000},
                      .workers = {}};
    cli::WorkerTimeline one{.worker = WorkerId{0}};
    one.spans = {{2, at(0, 9000), engine::TurnKind::step},
                 {2, at(10, 2000), Instruction{.kind = Kind::forward}},
                 {2, at(2000, 2500), engine::Wait{engine::Awaited::message, WorkerId{1}}},
                 {2, at(2100, 2400), engine::Transfer{engine::Direction::send, WorkerId{1}, 5, 64}},
                 {3, at(9000, 9500), std::string{"save \"a\""}}};
    one.left_out = 2;
    cli::WorkerTimeline two{.worker = WorkerId{1}};
    two.spans = {
        {3, at(0, 8000), engine::TurnKind::evaluation},
        {3, at(1, 4000),
         Instruction{.kind = Kind::receive_sum,
                     .stage = StageId{1},
                     .microbatch = Microbatch{0},
                     .lanes = {0, 2},
                     .peer = WorkerId{0}}},
        {3, at(100, 900), engine::Transfer{engine::Direction::receive, WorkerId{0}, 5, 64}}};
    timeline.workers = {one, two};
    return timeline;
}

void use(const Timeline& timeline) {
    ENSURE(as_read(as_read(timeline)) == as_read(timeline));
    Timeline both = timeline;
    if (add(both, as_read(sample())) == cli::Addition::too_far_apart) ENSURE(both == timeline);
    (void)as_read(both);
    ENSURE(table_of(cli::shares_of(both)).size() < std::size_t{1} << 20U);
    const std::string picture = draw_svg(both, picture_width);
    ENSURE(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

}  // namespace

std::vector<std::string> seeds() {
    return {json_of(sample()), json_of({.steps = {1, 1}, .members = {WorkerId{0}}, .workers = {}})};
}

void mend(std::string& /*input*/) {}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const auto read = cli::parse_timeline({reinterpret_cast<const char*>(data), size});
    if (const auto* refused = std::get_if<cli::NoTimeline>(&read)) {
        ENSURE(!refused->reason.empty() && refused->reason.size() < 200);
        ENSURE(visible(refused->reason) == refused->reason);
        fuzz::note(fuzz::Outcome::refused);
        return 0;
    }
    fuzz::use(std::get<cli::Timeline>(read));
    fuzz::note(fuzz::Outcome::accepted);
    return 0;
}
