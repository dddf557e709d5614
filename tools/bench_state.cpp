#include "bench_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "engine/saver.hpp"
#include "engine/stored_values.hpp"
#include "model/gpt.hpp"

namespace rhizome::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece = std::size_t{8} << 20;  // of the plain file
constexpr int repeats = 3;

/// Where the build lies: a disk, where /tmp may be memory.
class Folder {
  public:
    Folder() {
        std::string pattern = fs::current_path().string() + "/bench-state.XXXXXX";
        ENSURE(mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

double once(const std::function<void()>& call) {
    const SteadyClock clock;
    const Nanoseconds start = clock.now();
    call();
    return std::chrono::duration<double>(clock.now() - start).count();
}

double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/// So that the next read comes from the disk. What is dirty stays, hence the sync.
void forget(const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator{folder}) {
        if (!entry.is_regular_file()) continue;
        const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
        ENSURE(file >= 0);
        ENSURE(::fsync(file) == 0);
        ENSURE(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
        ::close(file);
    }
}

void write_plainly(const std::string& path, std::int64_t bytes) {
    const std::vector<std::byte> from(piece, std::byte{1});
    const auto file = state::make_file_system()->create(path);
    for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(piece)) {
        const auto size = std::min<std::int64_t>(bytes - at, static_cast<std::int64_t>(piece));
        file->write_at(at, std::span{from}.first(static_cast<std::size_t>(size)));
    }
    file->sync();
}

void read_plainly(const std::string& path) {
    std::vector<std::byte> to(piece);
    const auto file = state::make_file_system()->open(path);
    const std::int64_t bytes = file->bytes();
    for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(piece)) {
        const auto size = std::min<std::int64_t>(bytes - at, static_cast<std::int64_t>(piece));
        file->read_at(at, std::span{to}.first(static_cast<std::size_t>(size)));
    }
}

model::GptConfig large_gpt() {
    return {.blocks = 6,
            .channels = 512,
            .heads = 8,
            .context = 64,
            .vocabulary = 256,
            .tying = model::Tying::tied,
            .dropout = 0.0};
}

/// Writes a state as two writers would, each with every second run of chunks, and reads it as a
/// run of one worker does.
void rates(Report& report) {
    const model::Network network = model::make_gpt(large_gpt(), 1, DType::f32, 65536);
    const LayerTable& table = network.table();
    const state::StoredTable stored = state::stored_table_of(table);
    const Folder folder;
    const auto files = state::make_file_system();
    const auto device = device::make_reference_device(1);
    const Pattern text{64};
    const auto world = world::make_solo_world();
    engine::Worker worker{
        *device,
        network,
        text,
        nullptr,
        *world,
        plan_for_one(table, {1, 1}, engine::Recompute::none),
        {.seed = 1, .rows = 1, .optimizer = {}, .patience = Nanoseconds::max() / 4}};
    engine::Snapshot snapshot{worker.state(), worker.plan().owners, WorkerId{0}, stored};
    const double bytes = 3.0 * 4 * static_cast<double>(table.parameters());
    const std::string of = to_short(static_cast<double>(table.parameters())) + " parameters";

    const double copied = seconds([&] {
        snapshot.take(worker.stream());
        worker.stream().synchronize();
    });
    report.add({"snapshot, " + of, bytes / copied / 1e9, "GB/s", 0, ""});

    std::array<std::vector<state::ChunkValues>, 2> shares;
    for (const state::ChunkValues& each : snapshot.chunks()) {
        shares[each.chunk.chunk % 2 == 0 ? 0 : 1].push_back(each);
    }
    std::vector<double> plain;
    std::vector<double> saves;
    std::vector<double> plain_reads;
    std::vector<double> loads;
    for (std::int32_t i = 1; i <= repeats; ++i) {
        const std::string file = folder.path() + "/plain" + std::to_string(i);
        plain.push_back(once([&] { write_plainly(file, static_cast<std::int64_t>(bytes)); }));
        saves.push_back(once([&] {
            state::begin_state(*files, folder.path(), i);
            for (std::int32_t writer = 0; writer < 2; ++writer) {
                state::write_share(
                    *files, state::part_folder(folder.path(), i) + "/" + state::share_name(writer),
                    stored, i, writer, shares.at(static_cast<std::size_t>(writer)));
            }
            state::commit_state(*files, folder.path(), {.steps = i}, stored, 2);
        }));
        forget(folder.path());
        plain_reads.push_back(once([&] { read_plainly(file); }));
        loads.push_back(once([&] {
            state::StateReader reader{files, folder.path() + "/" + state::state_name(i)};
            engine::StoredValues values{reader, table};
            worker.load(values, i);
        }));
    }
    report.add({"limit: write and fsync a plain file", bytes / median(plain) / 1e9, "GB/s", 0, ""});
    report.add({"save a state, " + of, bytes / median(saves) / 1e9, "GB/s",
                median(plain) / median(saves), "a plain file"});
    report.add({"limit: read a plain file from the disk", bytes / median(plain_reads) / 1e9, "GB/s",
                0, ""});
    report.add({"load it into another shape", bytes / median(loads) / 1e9, "GB/s",
                median(plain_reads) / median(loads), "a plain file"});
    const std::string newest = folder.path() + "/" + state::state_name(repeats);
    const double warm_plain = seconds([&] { read_plainly(folder.path() + "/plain1"); });
    const double warm = seconds([&] {
        state::StateReader reader{files, newest};
        engine::StoredValues values{reader, table};
        worker.load(values, repeats);
    });
    report.add({"limit: read a plain file from memory", bytes / warm_plain / 1e9, "GB/s", 0, ""});
    report.add({"load it from memory", bytes / warm / 1e9, "GB/s", warm_plain / warm,
                "a plain file from memory"});
}

/// Seconds of a step of gpt-0.8m's shape, 2048 tokens; `saves` counts states that were saved.
std::vector<double> steps_of(int count, std::int32_t save_interval, std::size_t& saves) {
    const model::GptConfig config{.blocks = 4,
                                  .channels = 128,
                                  .heads = 4,
                                  .context = 128,
                                  .vocabulary = 256,
                                  .tying = model::Tying::tied,
                                  .dropout = 0.0};
    const Folder folder;
    const auto device = device::make_reference_device(1);
    const model::Network network = model::make_gpt(config, 4, DType::f32, 65536);
    const Pattern text{config.context};
    const auto world = world::make_solo_world();
    engine::Worker worker{
        *device,
        network,
        text,
        nullptr,
        *world,
        plan_for_one(network.table(), {4, 4}, engine::Recompute::none),
        {.seed = 1, .rows = 4, .optimizer = {}, .patience = Nanoseconds::max() / 4}};
    const auto background = engine::make_background_thread();
    engine::Saver saver{
        worker,
        network.table(),
        *background,
        {.files = state::make_file_system(),
         .folder = folder.path(),
         .facts = [](std::int32_t steps) { return state::StateFacts{.steps = steps}; },
         .on_end =
             [&](const engine::SaveEnd& end) {
                 ENSURE(end.problem.empty());
                 ++saves;
             }},
        std::nullopt};
    std::vector<double> times;
    for (std::int32_t step = 0; step < count; ++step) {
        times.push_back(once([&] {
            const engine::StepEnd end = worker.run_step(Step{step}, saver.votes());
            ENSURE(end.status == CommStatus::ok);
            const bool due = save_interval > 0 && (step + 1) % save_interval == 0;
            ENSURE(saver.between_steps(step + 1, end.votes,
                                       due ? engine::Saver::Due::yes : engine::Saver::Due::no) ==
                   CommStatus::ok);
        }));
    }
    ENSURE(saver.finish(count) == CommStatus::ok);
    return times;
}

double mean(const std::vector<double>& times) {
    double sum = 0;
    for (const double time : times) sum += time;
    return sum / static_cast<double>(times.size());
}

/// Pieces of the two in turns, so that whatever else the machine does meets both.
void cost_of_saving(Report& report) {
    constexpr int steps = 12;
    constexpr std::int32_t interval = 4;
    std::vector<double> without;
    std::vector<double> with;
    std::size_t saves = 0;
    std::size_t none = 0;
    for (int i = 0; i < 5; ++i) {
        without.push_back(mean(steps_of(steps, 0, none)));
        with.push_back(mean(steps_of(steps, interval, saves)));
    }
    ENSURE(saves > 5 && none == 5);
    report.add({"gpt 4 x 128, step of 2048 tokens", 1e3 * median(without), "ms", 0, ""});
    report.add({"the same, a state saved every 4 steps", 1e3 * median(with), "ms",
                median(with) / median(without), "a step without"});
}

}  // namespace

void states(Report& report) {
    rates(report);
    cost_of_saving(report);
}

}  // namespace rhizome::bench
