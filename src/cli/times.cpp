#include "cli/times.hpp"

#include <algorithm>

namespace rhizome::cli {

using engine::Interval;

namespace {

/// Of `other`, the first that could have to do with `one`. Many ask about one interval only.
std::size_t first_after(const Times& other, const Times& one) {
    if (one.empty()) return 0;
    const auto found = std::partition_point(other.begin(), other.end(), [&](const Interval& each) {
        return each.end <= one.front().begin;
    });
    return static_cast<std::size_t>(found - other.begin());
}

}  // namespace

Times united(Times times) {
    std::sort(times.begin(), times.end(),
              [](const Interval& one, const Interval& other) { return one.begin < other.begin; });
    Times result;
    for (const Interval& each : times) {
        if (each.begin >= each.end) continue;
        if (!result.empty() && each.begin <= result.back().end) {
            result.back().end = std::max(result.back().end, each.end);
        } else {
            result.push_back(each);
        }
    }
    return result;
}

Times common(const Times& one, const Times& other) {
    Times result;
    std::size_t first = first_after(other, one);
    for (const Interval& each : one) {
        while (first < other.size() && other[first].end <= each.begin) ++first;
        for (std::size_t i = first; i < other.size() && other[i].begin < each.end; ++i) {
            result.push_back(
                {std::max(each.begin, other[i].begin), std::min(each.end, other[i].end)});
        }
    }
    return result;
}

Times without(const Times& one, const Times& other) {
    Times result;
    std::size_t first = first_after(other, one);
    for (const Interval& each : one) {
        while (first < other.size() && other[first].end <= each.begin) ++first;
        Nanoseconds begin = each.begin;
        for (std::size_t i = first; i < other.size() && other[i].begin < each.end; ++i) {
            if (begin < other[i].begin) result.push_back({begin, other[i].begin});
            begin = other[i].end;
        }
        if (begin < each.end) result.push_back({begin, each.end});
    }
    return result;
}

Nanoseconds sum(const Times& times) {
    Nanoseconds sum{0};
    for (const Interval& each : times) sum += each.end - each.begin;
    return sum;
}

}  // namespace rhizome::cli
