#include "device/thread_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace rhizome::device {
namespace {

struct Piece {
    std::int64_t first;
    std::int64_t last;
    std::thread::id thread;
};

std::vector<Piece> pieces_of(ThreadPool& pool, std::int64_t turns) {
    std::mutex mutex;
    std::vector<Piece> pieces;
    pool.run(turns, [&](std::int64_t first, std::int64_t last) {
        const std::scoped_lock lock{mutex};
        pieces.push_back({first, last, std::this_thread::get_id()});
    });
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.first < b.first; });
    return pieces;
}

TEST(ThreadPool, CoversEveryTurnOnceInAtMostOnePieceForEachThread) {
    for (std::int32_t threads = 1; threads <= 5; ++threads) {
        ThreadPool pool{threads};
        EXPECT_EQ(pool.threads(), threads);
        for (std::int64_t turns = 0; turns <= 50; ++turns) {
            SCOPED_TRACE(testing::Message() << turns << " turns, " << threads << " threads");
            const std::vector<Piece> pieces = pieces_of(pool, turns);
            EXPECT_LE(pieces.size(), static_cast<std::size_t>(threads));
            std::int64_t covered = 0;
            for (const Piece& piece : pieces) {
                EXPECT_EQ(piece.first, covered);
                EXPECT_LT(piece.first, piece.last);
                covered = piece.last;
            }
            EXPECT_EQ(covered, turns);
        }
    }
}

TEST(ThreadPool, SharesTheTurnsOutEvenly) {
    for (std::int32_t threads = 2; threads <= 5; ++threads) {
        ThreadPool pool{threads};
        for (std::int64_t turns = threads; turns <= 50; ++turns) {
            for (const Piece& piece : pieces_of(pool, turns)) {
                EXPECT_GE(piece.last - piece.first, turns / threads);
                EXPECT_LE(piece.last - piece.first, turns / threads + 1);
            }
        }
    }
}

TEST(ThreadPool, OfOneWorksInTheCallersThread) {
    ThreadPool pool{1};
    const std::vector<Piece> pieces = pieces_of(pool, 10);
    ASSERT_EQ(pieces.size(), 1U);
    EXPECT_EQ(pieces[0].thread, std::this_thread::get_id());
}

TEST(ThreadPool, OfSeveralUsesItsThreads) {
    ThreadPool pool{3};
    const std::vector<Piece> pieces = pieces_of(pool, 3);
    ASSERT_EQ(pieces.size(), 3U);
    EXPECT_NE(pieces[0].thread, pieces[1].thread);
    EXPECT_NE(pieces[0].thread, pieces[2].thread);
    EXPECT_NE(pieces[1].thread, pieces[2].thread);
}

TEST(ThreadPool, RunsAThousandRoundsEachDoneBeforeTheNextBegins) {
    for (const std::int32_t threads : {1, 2, 4}) {
        ThreadPool pool{threads};
        std::vector<std::int64_t> values(37, 0);
        for (int round = 0; round < 1000; ++round) {
            // Each round reads what another piece wrote in the round before.
            const std::vector<std::int64_t> before = values;
            pool.run(37, [&](std::int64_t first, std::int64_t last) {
                for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last);
                     ++i) {
                    values[i] = before[(i + 19) % 37] + 1;
                }
            });
        }
        EXPECT_EQ(values, std::vector<std::int64_t>(37, 1000));
    }
}

TEST(ThreadPool, GivesSumsThatDoNotDependOnTheThreads) {
    std::vector<std::vector<float>> sums;
    for (std::int32_t threads = 1; threads <= 5; ++threads) {
        ThreadPool pool{threads};
        std::vector<float> by_column(33, 0.0F);
        pool.run(33, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t row = 0; row < 100; ++row) {
                for (std::int64_t column = first; column < last; ++column) {
                    by_column[static_cast<std::size_t>(column)] +=
                        1.0F / static_cast<float>(1 + row * 33 + column);
                }
            }
        });
        sums.push_back(by_column);
    }
    for (const auto& other : sums) EXPECT_EQ(other, sums.front());
}

TEST(ThreadPool, CanBeMadeAndEndedWithoutWork) {
    for (int i = 0; i < 100; ++i) {
        const ThreadPool pool{3};
        EXPECT_EQ(pool.threads(), 3);
    }
}

TEST(ThreadPoolDeathTest, RefusesToHaveNoThreads) {
    EXPECT_EXIT(ThreadPool{0}, testing::ExitedWithCode(1), "broken promise");
}

TEST(ThreadPool, ThrowsWhatABodyThrewAfterAllPiecesAreDone) {
    for (const std::int32_t threads : {1, 2, 4}) {
        ThreadPool pool{threads};
        for (std::int64_t culprit = 0; culprit < 8; ++culprit) {
            std::atomic<int> pieces_running = 0;
            EXPECT_THROW(pool.run(8,
                                  [&](std::int64_t first, std::int64_t last) {
                                      ++pieces_running;
                                      const bool mine = first <= culprit && culprit < last;
                                      --pieces_running;
                                      if (mine) throw std::bad_alloc{};
                                  }),
                         std::bad_alloc);
            EXPECT_EQ(pieces_running, 0);
        }
        int turns = 0;
        pool.run(1, [&](std::int64_t, std::int64_t) { ++turns; });  // and goes on working
        EXPECT_EQ(turns, 1);
    }
}

}  // namespace
}  // namespace rhizome::device
