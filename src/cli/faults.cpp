#include "cli/faults.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

namespace rhizome::cli {
namespace {

/// When, where and how, for whoever looks at the run afterwards.
void leave_word(const world::RunFolder& folder, WorkerId self, engine::FaultKind how,
                const engine::Point& point) {
    const std::string faults = folder.path() + "/faults";
    ::mkdir(faults.c_str(), 0777);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::ofstream{faults + "/" + std::to_string(self.value()), std::ios::app}
        << engine::name_of(how) << " " << engine::place_text(point) << " at "
        << std::chrono::duration_cast<std::chrono::microseconds>(now).count() << " us\n";
}

/// Returns in a rank that was stopped and that somebody continued.
void happen(engine::FaultKind how) {
    switch (how) {
        case engine::FaultKind::kill:
            ::kill(::getpid(), SIGKILL);
            while (true) ::pause();
        case engine::FaultKind::stop:
            // By this thread itself: it does nothing more before it is continued.
            static_cast<void>(std::raise(SIGSTOP));
            return;
        case engine::FaultKind::exit:
            std::exit(0);
        case engine::FaultKind::abort:
            std::abort();
    }
}

}  // namespace

engine::Probe probe_of(const std::string& faults, std::int32_t start, const world::World& world,
                       const std::optional<world::RunFolder>& folder) {
    engine::FaultPlan plan = engine::parse_faults(faults).plan;
    if (start > 0) plan.faults.clear();
    if (plan.soak) plan.soak->seed += static_cast<std::uint64_t>(start) << 32;
    if (plan.faults.empty() && !plan.soak) return {};
    const auto watch = std::make_shared<engine::FaultWatch>(std::move(plan), world.self());
    return [watch, &world, &folder](const engine::Point& point) {
        const auto how = watch->strikes(point, world.members().size());
        if (!how) return;
        if (folder) leave_word(*folder, world.self(), *how, point);
        happen(*how);
    };
}

}  // namespace rhizome::cli
