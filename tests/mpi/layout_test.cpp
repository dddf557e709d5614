// layout_test WHICH DEVICE FOLDER: the contract's first clause with real ranks. Every arrangement
// that fits this many ranks exactly trains twenty steps, and every chunk of parameters and moments
// must have the bits of the judge. WHICH is `pairs` (each pair of choices at least once, over all
// numbers of ranks) or `all` (the product); DEVICE, which the judge has as well, is in the table of
// devices below.
//
// The first rank judges and writes FOLDER/verdict.RANKS: "arrangements N", or what went wrong.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "support/layouts.hpp"
#include "world/mpi_world.hpp"

namespace rhizome::tests {
namespace {

using schedule::Style;

constexpr RunLength length{.steps = 20, .evaluate_interval = 6, .evaluation_microbatches = 5};

const std::vector<Style> styles{Style::gpipe, Style::one_f_one_b, Style::interleaved,
                                Style::zero_bubble_h1, Style::zero_bubble_h2};
const std::vector<std::int32_t> owners{1, 2, 64};  // more than there are workers: all

/// Places in the five lists: pipelines, styles, owners, tyings, recomputes.
using Choice = std::array<std::size_t, 5>;

std::vector<Choice> product() {
    std::vector<Choice> all;
    for (std::size_t l = 0; l < contract_pipelines().size(); ++l)
        for (std::size_t s = 0; s < styles.size(); ++s)
            for (std::size_t o = 0; o < owners.size(); ++o)
                for (std::size_t t = 0; t < tyings.size(); ++t)
                    for (std::size_t r = 0; r < recomputes.size(); ++r)
                        all.push_back({l, s, o, t, r});
    return all;
}

using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;

std::vector<Pair> pairs_of(const Choice& choice) {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < choice.size(); ++a) {
        for (std::size_t b = a + 1; b < choice.size(); ++b) {
            pairs.emplace_back(a, choice[a], b, choice[b]);
        }
    }
    return pairs;
}

/// Again and again the choice with the most pairs that are still missing, the first of equals.
std::vector<Choice> pairwise() {
    const std::vector<Choice> all = product();
    std::set<Pair> missing;
    for (const Choice& choice : all) {
        for (const Pair& pair : pairs_of(choice)) missing.insert(pair);
    }
    std::vector<Choice> chosen;
    while (!missing.empty()) {
        const Choice* best = nullptr;
        std::size_t most = 0;
        for (const Choice& choice : all) {
            std::size_t gain = 0;
            for (const Pair& pair : pairs_of(choice)) gain += missing.count(pair);
            if (gain > most) {
                most = gain;
                best = &choice;
            }
        }
        for (const Pair& pair : pairs_of(*best)) missing.erase(pair);
        chosen.push_back(*best);
    }
    return chosen;
}

const std::map<std::string, MakeDevice> devices{
    {"reference", device::make_reference_device},
    {"cpu", device::make_cpu_device},
    {"cpu-bf16", [](std::int32_t threads) {
         return device::make_bf16_device(device::make_cpu_device(threads));
     }}};

Arrangement arrangement_of(const Choice& choice) {
    return arrangement_of(contract_pipelines()[choice[0]], styles[choice[1]], owners[choice[2]],
                          recomputes[choice[4]]);
}

std::string difference(const WorkerEnd& found, const WorkerEnd& expected) {
    if (found.end.status != CommStatus::ok) {
        return "ended with status " + std::to_string(static_cast<int>(found.end.status));
    }
    if (found.trace.losses != expected.trace.losses) return "other losses";
    if (found.trace.norms != expected.trace.norms) return "other norms";
    if (found.trace.evaluations != expected.trace.evaluations) return "other validation losses";
    for (std::size_t i = 0; i < expected.chunks.size(); ++i) {
        if (i >= found.chunks.size() || found.chunks[i] != expected.chunks[i]) {
            return "other bits in " + expected.chunks[i].name;
        }
    }
    return found.chunks.size() == expected.chunks.size() ? "" : "chunks that should not be there";
}

/// What to write down; each rank has its own opinion of the losses, the first of the chunks as
/// well.
std::string judge_all(world::World& world, MakeDevice make_device, bool everything) {
    const bool first = world.self() == world.members().front();
    std::map<std::size_t, WorkerEnd> expected;  // by tying
    const auto ranks = static_cast<std::int32_t>(world.members().size());
    std::size_t count = 0;
    for (const Choice& choice : everything ? product() : pairwise()) {
        if (workers_of(contract_pipelines()[choice[0]]) != ranks) continue;
        const SmallOptions options = contract_options(tyings[choice[3]], make_device);
        if (!expected.contains(choice[3])) expected[choice[3]] = run_judge(options, length);
        const Arrangement arrangement = arrangement_of(choice);
        WorkerEnd found = run_worker(world, options, arrangement, length);
        if (!first) found.chunks = expected[choice[3]].chunks;
        const std::string wrong = difference(found, expected[choice[3]]);
        if (!wrong.empty()) {
            return to_text(arrangement) + (choice[3] == 0 ? " tied" : " untied") + ": rank " +
                   std::to_string(world.self().value()) + " has " + wrong;
        }
        ++count;
    }
    return "arrangements " + std::to_string(count);
}

int run(const std::string& which, const std::string& device, const std::string& folder) {
    world::Pulse pulse;
    const auto world = world::make_mpi_world({.pulse = pulse});
    const std::string verdict = judge_all(*world, devices.at(device), which == "all");
    const bool fine = verdict.starts_with("arrangements ");
    const world::Agreement agreement =
        world->agree(fine ? 1 : 0, world->clock().now() + std::chrono::seconds{60});
    const bool all_fine = agreement.status == CommStatus::ok && agreement.flags == 1;
    if (!fine) std::fprintf(stderr, "%s\n", verdict.c_str());
    if (world->self() == world->members().front()) {
        const std::string name = folder + "/verdict." + std::to_string(world->members().size());
        std::ofstream{name + ".part"} << (fine && !all_fine ? "another rank failed" : verdict);
        std::rename((name + ".part").c_str(), name.c_str());
    }
    world::leave_mpi(all_fine ? ExitCode::done : ExitCode::our_fault);
}

}  // namespace
}  // namespace rhizome::tests

int main(int count, char** arguments) {
    if (count != 4) return 2;
    return rhizome::tests::run(arguments[1], arguments[2], arguments[3]);
}
