// Spreads items over places evenly, where not every set of places will do: the arithmetic behind
// the ownership map, which gives it its meaning.
//
// An item takes `copies` places. Of all sets of that many places, those are allowed that touch the
// most domains; of these, those with the most places of the item's class 0, then of class 1, and so
// on. The allowed sets are the bases of a matroid (partition constraints, then weights), so the
// possible loads are an M-convex set (Murota: Discrete Convex Analysis, 2003). Hence exchanging
// items along chains of places until no chain gains gives the best of all assignments, not only one
// that no single exchange improves.
//
// Items of one size are spread at a time, the largest first, each size on top of what lies there.
// (Over all sizes at once the problem is NP-hard.) For one size, what is least, in this order:
//   1. the imbalance, seen in units of the largest item of all;
//   2. the number of places given up that the item had before;
//   3. the imbalance, to the last element.
// Imbalance is the sum over the places of the square of the load. Its least value brings with it
// the least maximum, the least second-largest load under that, and so on. In 1 the square is drawn
// with straight lines between multiples of the unit, so a balance finer than one largest item moves
// nothing. Where nothing was held before, 3 alone decides, for its optimum is one of 1 as well.
// What this leaves open is used to let few items share the same two places; no promise.
#pragma once

#include <cstdint>
#include <vector>

namespace rhizome::plan {

struct Item {
    std::int64_t elements;               // positive
    std::size_t kind;                    // place in Spread::class_of
    std::vector<std::int32_t> before{};  // places it had, ascending
};

struct Spread {
    std::int32_t copies;                              // of each item, at most one a place
    std::vector<std::int32_t> domain_of;              // by place
    std::vector<std::vector<std::int32_t>> class_of;  // by kind and place; 0 is liked best
    std::vector<Item> items;
};

/// For each item its places, ascending. The same arguments give the same answer everywhere.
[[nodiscard]] std::vector<std::vector<std::int32_t>> spread_evenly(const Spread& spread);

}  // namespace rhizome::plan
