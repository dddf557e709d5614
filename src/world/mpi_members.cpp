#include "world/mpi_members.hpp"

#include <numeric>

namespace rhizome::world {
namespace {

constexpr std::int32_t bits = 32;  // of an agreement's flags

/// A bit for each rank, set for those not known to have failed. Acknowledges the failed.
std::vector<std::uint32_t> look_who_lives(MPI_Comm comm, std::int32_t ranks) {
    int acknowledged = 0;
    MPIX_Comm_ack_failed(comm, ranks, &acknowledged);
    MPI_Group everybody = MPI_GROUP_NULL;
    MPI_Group failed = MPI_GROUP_NULL;
    MPI_Comm_group(comm, &everybody);
    MPIX_Comm_get_failed(comm, &failed);
    int lost = 0;
    MPI_Group_size(failed, &lost);
    std::vector<int> places(static_cast<std::size_t>(lost));
    std::iota(places.begin(), places.end(), 0);
    std::vector<int> lost_ranks(places.size());
    MPI_Group_translate_ranks(failed, lost, places.data(), everybody, lost_ranks.data());
    MPI_Group_free(&everybody);
    MPI_Group_free(&failed);
    std::vector<std::uint32_t> alive(static_cast<std::size_t>((ranks + bits - 1) / bits),
                                     ~std::uint32_t{0});
    for (const int rank : lost_ranks) {
        alive[static_cast<std::size_t>(rank / bits)] &= ~(std::uint32_t{1} << (rank % bits));
    }
    return alive;
}

}  // namespace

std::optional<std::vector<WorkerId>> agree_on_members(MPI_Comm comm,
                                                      const std::vector<WorkerId>& workers,
                                                      const AgreeOnce& agree) {
    const auto ranks = static_cast<std::int32_t>(workers.size());
    // Everybody goes through the same agreements, whatever one of them says: rank by rank, whether
    // all had the same list, whether all know that. It is repeated only for a loss that came in
    // between, so it ends.
    while (true) {
        const std::vector<std::uint32_t> mine = look_who_lives(comm, ranks);
        std::vector<std::uint32_t> all;
        bool stable = true;
        for (const std::uint32_t word : mine) {
            const Agreement agreement = agree(word);
            if (agreement.status == CommStatus::timed_out) return std::nullopt;
            stable = stable && agreement.status == CommStatus::ok;
            all.push_back(agreement.flags);
        }
        for (int round = 0; round < 2; ++round) {
            const Agreement agreement = agree(stable && all == mine ? 1 : 0);
            if (agreement.status == CommStatus::timed_out) return std::nullopt;
            stable = agreement.status == CommStatus::ok && agreement.flags == 1;
        }
        if (!stable) continue;
        std::vector<WorkerId> members;
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            const std::uint32_t word = all[static_cast<std::size_t>(rank / bits)];
            const bool lives = (word >> (rank % bits) & 1) != 0;
            if (lives) members.push_back(workers[static_cast<std::size_t>(rank)]);
        }
        return members;
    }
}

}  // namespace rhizome::world
