// What the parts of `make bench` share: rows of the report, a stopwatch, something to train on.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/text.hpp"
#include "engine/worker.hpp"
#include "plan/ownership.hpp"

namespace rhizome::bench {

struct Row {
    std::string name;
    double value;
    std::string unit;
    double share;  // of the limit; 0: there is none
    std::string limit;
};

class Report {
  public:
    void add(const Row& row) {
        rows_.push_back(row);
        std::printf("%-46s %10s %-10s", row.name.c_str(), to_short_or_fixed(row.value).c_str(),
                    row.unit.c_str());
        if (row.share > 0) {
            std::printf(" %5s %% of %s", to_fixed(100 * row.share, 0).c_str(), row.limit.c_str());
        }
        std::printf("\n");
        std::fflush(stdout);
    }
    [[nodiscard]] std::string json(const std::string& fingerprint) const {
        std::string text = "{\"device\": \"" + fingerprint + "\", \"rows\": [\n";
        for (const Row& row : rows_) {
            text += "  {\"name\": \"" + row.name + "\", \"value\": " + to_text(row.value) +
                    ", \"unit\": \"" + row.unit + "\", \"share\": " + to_text(row.share) +
                    ", \"limit\": \"" + row.limit + "\"}" + (&row == &rows_.back() ? "\n" : ",\n");
        }
        return text + "]}\n";
    }

  private:
    static std::string to_short_or_fixed(double value) {
        return value < 1000 ? to_fixed(value, 2) : to_short(value);
    }
    std::vector<Row> rows_;
};

/// Median seconds of one call, after a warm-up, over a quarter of a second or five calls.
inline double seconds(const std::function<void()>& call) {
    const SteadyClock clock;
    call();
    std::vector<double> times;
    double total = 0;
    while (total < 0.25 || times.size() < 5) {
        const Nanoseconds start = clock.now();
        call();
        times.push_back(std::chrono::duration<double>(clock.now() - start).count());
        total += times.back();
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
}

/// Bytes in a fixed pattern.
class Pattern final : public data::Dataset {
  public:
    explicit Pattern(std::int64_t context)
        : fields_{{"tokens", Shape{context}, DType::i32}, {"targets", Shape{context}, DType::i32}} {
    }
    std::int64_t samples() const override { return 10'000; }
    std::span<const TensorSpec> fields() const override { return fields_; }
    void read(std::int64_t sample, std::size_t field, std::span<std::byte> row) const override {
        for (std::size_t i = 0; i < row.size() / 4; ++i) {
            const auto token = static_cast<std::int32_t>(
                (static_cast<std::uint64_t>(sample) * 31 + (i + field) * 7) % 251);
            std::memcpy(row.data() + 4 * i, &token, 4);
        }
    }
    std::int64_t loss_terms(std::int64_t /*sample*/) const override { return fields_[0].shape[0]; }

  private:
    std::vector<TensorSpec> fields_;
};

/// One worker does it all.
inline engine::RunPlan plan_for_one(const LayerTable& table, LaneShape lanes,
                                    engine::Recompute recompute) {
    const auto layers = static_cast<std::int32_t>(table.layers.size());
    const RunShape shape{
        .workers = {WorkerId{0}},
        .lanes = lanes,
        .pipelines = {{.stages = {{WorkerId{0}, {0, layers}}}, .lanes = {0, lanes.lanes}}}};
    return engine::make_run_plan(
        {.shape = shape,
         .owners = plan::assign_owners(table, shape, {plan::FailureDomain{0}}, 1),
         .style = schedule::Style::one_f_one_b,
         .recompute = recompute,
         .evaluation_microbatches = 0},
        table, schedule::equal_costs(layers));
}

}  // namespace rhizome::bench
