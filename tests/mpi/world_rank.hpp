// One rank of a case of world_test.py, with what the cases are made of.
//
// A rank that came to its end stays until all who should live have come to theirs, so that nobody
// takes a leaving rank for a loss.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "world/mpi_world.hpp"

namespace rhizome::world {

using namespace std::chrono_literals;

inline constexpr Nanoseconds far = 20s;
inline constexpr std::uint32_t all_bits = 0xffffffff;

/// Nobody sees half of it.
inline void write_whole(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path half = path.string() + ".part." + std::to_string(::getpid());
    std::ofstream{half} << text << '\n';
    std::filesystem::rename(half, path);
}

/// One rank and what it has to tell.
class Rank {
  public:
    Rank(World& its_world, std::filesystem::path folder, std::uint64_t its_seed)
        : world{its_world},
          self{its_world.self().value()},
          seed{its_seed},
          folder_{std::move(folder)} {}

    World& world;
    const std::int32_t self;
    const std::uint64_t seed;

    [[nodiscard]] std::int32_t ranks() const {
        return static_cast<std::int32_t>(world.members().size());
    }
    [[nodiscard]] Nanoseconds in(Nanoseconds time) const { return world.clock().now() + time; }

    template <class... Words>
    void saw(const Words&... words) {
        (note(words), ...);
    }

    [[nodiscard]] CommStatus wait(Ticket ticket, Nanoseconds at_most = far) {
        return wait_all(world, {&ticket, 1}, in(at_most));
    }
    [[nodiscard]] Ticket send(std::int32_t to, std::span<const std::byte> bytes,
                              std::int32_t tag = 1) {
        return world.send(WorkerId{to}, Tag{tag}, bytes);
    }
    [[nodiscard]] Ticket receive(std::int32_t from, std::span<std::byte> bytes,
                                 std::int32_t tag = 1) {
        return world.receive(WorkerId{from}, Tag{tag}, bytes);
    }

    void write(const std::string& name, const std::string& text) const {
        write_whole(folder_ / name, text);
    }
    [[nodiscard]] bool has(const std::string& name) const {
        return std::filesystem::exists(folder_ / name);
    }
    /// Moves messages along until that file is there.
    void until(const std::string& name) {
        const Nanoseconds deadline = in(far);
        while (!has(name) && world.clock().now() < deadline) world.rest(in(1ms));
    }

    /// Moves messages along for as many looks as the seed says, and then not until the file is
    /// there.
    void begin_and_stand_still_until(const std::string& name) {
        for (std::uint64_t look = 0; look < seed % 1000; ++look) world.rest(in(0s));
        write("begun." + std::to_string(self), "");
        const Nanoseconds deadline = in(far);
        while (!has(name) && world.clock().now() < deadline) std::this_thread::yield();
    }

    void note_victim() const {
        write("victim." + std::to_string(self), std::to_string(::getpid()));
    }
    [[noreturn]] void die() const {
        note_victim();
        (void)std::raise(SIGKILL);
        std::abort();
    }
    /// The end of a rank that lives, as all do who are not named.
    [[noreturn]] void leave(const std::vector<std::int32_t>& dead = {}) {
        write("saw." + std::to_string(self), text_.str());
        for (const WorkerId member : world.members()) {
            const std::int32_t peer = member.value();
            if (std::ranges::find(dead, peer) == dead.end()) until("saw." + std::to_string(peer));
        }
        leave_mpi(ExitCode::done);
    }

  private:
    template <class Word>
    void note(const Word& word) {
        text_ << word << ' ';
    }
    void note(CommStatus status) { note(name_of(status)); }
    void note(const Agreement& agreement) { saw(agreement.status, agreement.flags); }

    std::filesystem::path folder_;
    std::ostringstream text_;
};

inline std::vector<std::byte> bytes_of(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    for (std::byte& byte : bytes) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<std::byte>(state >> 56U);
    }
    return bytes;
}

using Case = void (*)(Rank&);
/// By name.
[[nodiscard]] std::map<std::string, Case> calm_cases();
[[nodiscard]] std::map<std::string, Case> loss_cases();

}  // namespace rhizome::world
