#include "cli/memory_limit.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

/// Of one file of a version 2 control group; no limit if there is none.
double group_limit(const std::string& folder) {
    std::ifstream file{folder + "/memory.max"};
    std::string word;
    file >> word;
    return parse_number(word).value_or(std::numeric_limits<double>::infinity());
}

/// The least of the process's group and all that contain it.
double groups_limit() {
    std::ifstream file{"/proc/self/cgroup"};
    std::string line;
    double limit = std::numeric_limits<double>::infinity();
    while (std::getline(file, line)) {
        if (!line.starts_with("0::/")) continue;
        for (std::string path = line.substr(3); !path.empty();) {
            limit = std::min(limit, group_limit("/sys/fs/cgroup" + path));
            path.resize(path.rfind('/'));
        }
    }
    return std::min(limit, group_limit("/sys/fs/cgroup"));
}

}  // namespace

double memory_limit_bytes() {
    const double machine =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    rlimit space{};
    const bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
    const double address_space =
        limited ? static_cast<double>(space.rlim_cur) : std::numeric_limits<double>::infinity();
    return std::min({machine, groups_limit(), address_space});
}

void expect_memory(double bytes, const std::string& who_needs, const std::string& hint) {
    const double limit = memory_limit_bytes();
    if (bytes <= limit) return;
    throw ConfigError{who_needs + " " + to_short(bytes) + "B of memory (this process may have " +
                      to_short(limit) + "B), " + hint};
}

double memory_peak_bytes() {
    // Not getrusage, which counts what the program that started this one had.
    std::ifstream file{"/proc/self/status"};
    std::string word;
    while (file >> word) {
        if (word != "VmHWM:") continue;
        file >> word;
        return 1024.0 * parse_number(word).value_or(0);
    }
    return 0;
}

}  // namespace rhizome::cli
