#include "recover/place_workers.hpp"

#include <limits>

#include "core/error.hpp"

namespace rhizome::recover {
namespace {

constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();

/// Places with a worker so far, and prices under which each has its cheapest one.
class Assignment {
  public:
    explicit Assignment(const std::vector<std::vector<std::int64_t>>& cost)
        : cost_{cost},
          workers_{cost.front().size()},
          place_of_(workers_, nobody),
          place_price_(cost.size()),
          worker_price_(workers_) {}

    /// Finds a worker for one more place; others may change theirs.
    void add(std::size_t place) {
        std::vector<std::int64_t> distance(workers_, far);
        std::vector<std::size_t> before(workers_, nobody);  // worker, on the shortest path to one
        std::vector<bool> reached(workers_);
        std::size_t at = nobody;  // the worker whose place is looked at; nobody: the new one
        std::int64_t so_far = 0;
        std::size_t last = nobody;
        while (last == nobody) {
            const std::size_t from = at == nobody ? place : place_of_[at];
            std::size_t next = nobody;
            for (std::size_t w = 0; w < workers_; ++w) {
                if (reached[w]) continue;
                const std::int64_t by_here =
                    so_far + cost_[from][w] - place_price_[from] - worker_price_[w];
                if (by_here < distance[w]) {
                    distance[w] = by_here;
                    before[w] = at;
                }
                if (next == nobody || distance[w] < distance[next]) next = w;
            }
            ENSURE(next != nobody);
            reached[next] = true;
            so_far = distance[next];
            at = next;
            if (place_of_[next] == nobody) last = next;
        }
        place_price_[place] += so_far;
        for (std::size_t w = 0; w < workers_; ++w) {
            if (!reached[w]) continue;
            const std::int64_t gain = so_far - distance[w];
            worker_price_[w] -= gain;
            if (place_of_[w] != nobody) place_price_[place_of_[w]] += gain;
        }
        while (last != nobody) {
            const std::size_t previous = before[last];
            place_of_[last] = previous == nobody ? place : place_of_[previous];
            last = previous;
        }
    }

    [[nodiscard]] std::vector<std::size_t> workers() const {
        std::vector<std::size_t> worker_of(cost_.size(), nobody);
        for (std::size_t w = 0; w < workers_; ++w) {
            if (place_of_[w] != nobody) worker_of[place_of_[w]] = w;
        }
        return worker_of;
    }

  private:
    const std::vector<std::vector<std::int64_t>>& cost_;
    std::size_t workers_;
    std::vector<std::size_t> place_of_;  // by worker
    std::vector<std::int64_t> place_price_;
    std::vector<std::int64_t> worker_price_;
};

}  // namespace

std::vector<std::size_t> place_workers(const std::vector<std::vector<std::int64_t>>& cost) {
    if (cost.empty()) return {};
    ENSURE(cost.size() <= cost.front().size());
    Assignment assignment{cost};
    for (std::size_t place = 0; place < cost.size(); ++place) assignment.add(place);
    return assignment.workers();
}

}  // namespace rhizome::recover
