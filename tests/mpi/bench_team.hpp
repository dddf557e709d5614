// What the engine's benchmark measures with: ranks that meet without burning the cores which others
// need, times of calls that all ranks make together, and a report of one line of JSON per row.
//
// All ranks must be on one host: their clock is the same.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "world/backoff.hpp"

namespace rhizome::bench {

inline double now_s() { return std::chrono::duration<double>(SteadyClock{}.now()).count(); }

class Team {
  public:
    /// Everybody in `comm`, which is the caller's.
    explicit Team(MPI_Comm comm) : comm_{comm} {
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
    }
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    void meet() const {
        MPI_Request request = MPI_REQUEST_NULL;
        ENSURE(MPI_Ibarrier(comm_, &request) == MPI_SUCCESS);
        wait(request);
    }
    /// Of each number the largest that any rank gave.
    [[nodiscard]] std::vector<double> largest(const std::vector<double>& numbers) const {
        std::vector<double> result(numbers.size());
        MPI_Request request = MPI_REQUEST_NULL;
        ENSURE(MPI_Iallreduce(numbers.data(), result.data(), static_cast<int>(numbers.size()),
                              MPI_DOUBLE, MPI_MAX, comm_, &request) == MPI_SUCCESS);
        wait(request);
        return result;
    }

  private:
    static void wait(MPI_Request request) {
        world::Backoff backoff;
        for (int done = 0; done == 0;) {
            ENSURE(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            if (done == 0) backoff.wait(std::chrono::seconds{1});
        }
    }

    MPI_Comm comm_;
    int rank_ = 0;
    int size_ = 0;
};

/// Seconds of one call, of many.
struct Times {
    std::vector<double> ascending;

    [[nodiscard]] double fastest() const { return at(0); }
    [[nodiscard]] double p50() const { return at(50); }
    [[nodiscard]] double p99() const { return at(99); }

  private:
    [[nodiscard]] double at(std::size_t percent) const {
        return ascending[(ascending.size() - 1) * percent / 100 +
                         ((ascending.size() - 1) * percent % 100 != 0 ? 1 : 0)];
    }
};

/// After a warm-up, calls that all ranks make together, for about that long but at least five. A
/// call lasts from when the last rank was through with the one before to when the last is through
/// with it, so the times add up to what passed.
inline Times measure(const Team& team, double budget_s, const std::function<void()>& call) {
    constexpr double fewest = 5;
    constexpr double most = 2000;
    const auto once = [&] {
        const double before = now_s();
        call();
        return team.largest({now_s() - before}).front();
    };
    double one = once();
    if (one < budget_s) one = once();  // the first of all says little
    const double calls = std::clamp(budget_s / one, fewest, most);
    std::vector<double> ends{now_s()};
    while (static_cast<double>(ends.size()) <= calls) {
        call();
        ends.push_back(now_s());
    }
    ends = team.largest(ends);
    Times times;
    for (std::size_t i = 1; i < ends.size(); ++i) times.ascending.push_back(ends[i] - ends[i - 1]);
    std::sort(times.ascending.begin(), times.ascending.end());
    return times;
}

/// As in tools/bench.cpp, which prints those of one process.
struct Row {
    std::string name;
    double value;
    std::string unit;
    double share = 0;  // of the limit, or of what else is named there; 0: nothing to compare with
    std::string limit{};
    double p99 = 0;    // in the unit of the value, which is the median; 0: it is no median
    double bytes = 0;  // moved in `value` milliseconds; 0: no rate
};

class Report {
  public:
    /// The first rank writes, a line as soon as a row is known.
    Report(const Team& team, const std::string& path)
        : file_{team.rank() == 0 ? std::fopen(path.c_str(), "a") : nullptr} {
        ENSURE(team.rank() != 0 || file_ != nullptr);
    }
    ~Report() {
        if (file_ != nullptr) std::fclose(file_);
    }
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;

    void add(const Row& row) const {
        std::string line = R"({"name": ")" + row.name + R"(", "value": )" + to_text(row.value) +
                           R"(, "unit": ")" + row.unit + R"(", "share": )" + to_text(row.share) +
                           R"(, "limit": ")" + row.limit + '"';
        if (row.p99 > 0) line += R"(, "p99": )" + to_text(row.p99);
        if (row.bytes > 0) {
            line += R"(, "gb_per_s": )" + to_text(row.bytes / row.value / 1e6);
        }
        write(line + "}\n");
    }
    /// Without it, whoever reads knows that something went wrong.
    void close() const { write("end\n"); }

  private:
    void write(const std::string& line) const {
        if (file_ == nullptr) return;
        std::fputs(line.c_str(), file_);
        std::fflush(file_);
    }
    std::FILE* file_;
};

}  // namespace rhizome::bench
