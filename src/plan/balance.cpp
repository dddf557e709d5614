#include "plan/balance.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace rhizome::plan {
namespace {

using Place = std::int32_t;
using Places = std::vector<Place>;  // ascending

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

bool contains(const Places& places, Place place) {
    return std::binary_search(places.begin(), places.end(), place);
}

/// Compared from left to right; see the header. Differences only, so that nothing overflows.
struct Cost {
    std::int64_t coarse = 0;
    std::int64_t moved = 0;
    std::int64_t fine = 0;

    friend auto operator<=>(const Cost&, const Cost&) = default;
    friend Cost operator+(Cost a, Cost b) {
        return {a.coarse + b.coarse, a.moved + b.moved, a.fine + b.fine};
    }
    friend Cost operator-(Cost a) { return {-a.coarse, -a.moved, -a.fine}; }
};

/// Spreads the items of one size.
///
/// The graph of exchanges has a node for each place, and an arc a -> b for each item that could go
/// from a to b. One more node, the hub, closes a chain to a cycle: hub -> a, ..., b -> hub takes an
/// item's worth of load from a and puts it on b. A negative cycle is a gain, and an assignment
/// without negative cycle is optimal. Of cycles with the fewest arcs all exchanges can be made at
/// once, even where two of them concern one item.
class SameSize {
  public:
    SameSize(const Spread& spread, std::vector<std::size_t> items, std::int64_t unit,
             std::vector<std::int64_t>& loads)
        : spread_{spread},
          items_{std::move(items)},
          elements_{spread.items[items_.front()].elements},
          unit_{unit},
          loads_{loads},
          hub_{static_cast<std::int32_t>(spread.domain_of.size())},
          exchanges_(index(hub_) * index(hub_)),
          shared_(exchanges_.size(), 0),
          items_at_(index(hub_)) {
        Places domains = spread.domain_of;
        std::sort(domains.begin(), domains.end());
        domains.erase(std::unique(domains.begin(), domains.end()), domains.end());
        domains_hit_ = std::min(spread.copies, static_cast<std::int32_t>(domains.size()));
        for (std::size_t i = 0; i < items_.size(); ++i) put(i, first_choice(i));
    }

    /// Ends because each round lowers a cost that has finitely many values.
    void improve() {
        for (;;) {
            // Cycles through the hub are the usual gain and the cheap one to look for.
            const auto chain = cycle_through(hub_, hub_ + 1);
            if (chain && apply(*chain)) continue;
            const auto cycle = smallest_cycle();
            if (!cycle) return;
            const bool applied = apply(*cycle);
            ENSURE(applied);
        }
    }

    void write(std::vector<Places>& result) const {
        for (std::size_t i = 0; i < items_.size(); ++i) result[items_[i]] = places_[i];
    }

  private:
    using Cycle = std::vector<Place>;  // begins and ends with the same node

    [[nodiscard]] const Item& item(std::size_t i) const { return spread_.items[items_[i]]; }
    [[nodiscard]] std::int32_t class_of(std::size_t i, Place place) const {
        return spread_.class_of[item(i).kind][index(place)];
    }
    [[nodiscard]] std::int32_t domain_of(Place place) const {
        return spread_.domain_of[index(place)];
    }

    /// The matroid's greedy algorithm: the liked classes first, within them what was held before,
    /// then the light places. Among equals, those that share few items with the places chosen so
    /// far, from another place on for each item: so a lost place's items have their other copies on
    /// many places, which all help to replace them.
    [[nodiscard]] Places first_choice(std::size_t i) const {
        std::int32_t spare = spread_.copies - domains_hit_;  // places that share a domain
        std::set<std::int32_t> hit;
        std::vector<std::int32_t> shared(index(hub_), 0);
        const auto turn = static_cast<Place>(items_[i] % index(hub_));
        const auto key = [&](Place place) {
            return std::tuple{class_of(i, place), contains(item(i).before, place) ? 0 : 1,
                              loads_[index(place)], shared[index(place)],
                              (place + hub_ - turn) % hub_};
        };
        Places chosen;
        while (std::cmp_less(chosen.size(), spread_.copies)) {
            std::optional<Place> best;
            for (Place place = 0; place < hub_; ++place) {
                if (std::find(chosen.begin(), chosen.end(), place) != chosen.end()) continue;
                if (spare == 0 && hit.contains(domain_of(place))) continue;
                if (!best || key(place) < key(*best)) best = place;
            }
            ENSURE(best);
            if (!hit.insert(domain_of(*best)).second) --spare;
            chosen.push_back(*best);
            for (Place place = 0; place < hub_; ++place) {
                shared[index(place)] += shared_[index(*best * hub_ + place)];
            }
        }
        std::sort(chosen.begin(), chosen.end());
        return chosen;
    }

    void put(std::size_t i, Places places) {
        if (i == places_.size()) places_.emplace_back();
        places_[i] = std::move(places);
        count(i, 1);
    }

    /// Calls visit(a, b, moved) for each exchange of item i that leaves its set allowed: domains
    /// and classes must be what they were, which for classes means the same class.
    template <class Visit>
    void for_exchanges(std::size_t i, Visit visit) const {
        std::map<std::int32_t, std::int32_t> in_domain;
        for (const Place place : places_[i]) ++in_domain[domain_of(place)];
        for (const Place a : places_[i]) {
            const bool was_at_a = contains(item(i).before, a);
            for (Place b = 0; b < hub_; ++b) {
                if (class_of(i, a) != class_of(i, b) || contains(places_[i], b)) continue;
                const bool same = domain_of(a) == domain_of(b);
                if (!same && in_domain[domain_of(a)] == 1 && in_domain.contains(domain_of(b))) {
                    continue;
                }
                visit(a, b, (was_at_a ? 1 : 0) - (contains(item(i).before, b) ? 1 : 0));
            }
        }
    }

    /// Adds item i to the books or, with -1, takes it out.
    void count(std::size_t i, std::int32_t sign) {
        for_exchanges(i, [&](Place a, Place b, int moved) {
            exchanges_[index(a * hub_ + b)][index(moved + 1)] += sign;
        });
        for (const Place place : places_[i]) {
            for (const Place other : places_[i]) shared_[index(place * hub_ + other)] += sign;
            loads_[index(place)] += sign * elements_;
            if (sign > 0) {
                items_at_[index(place)].insert(i);
            } else {
                items_at_[index(place)].erase(i);
            }
        }
    }

    /// What it costs to put one more item on a place with that load. Divided by what is the same
    /// for all places: the unit in coarse, the size in fine.
    [[nodiscard]] Cost put_cost(std::int64_t load) const {
        const std::int64_t full = load / unit_;
        const std::int64_t below = std::min(elements_, unit_ - load % unit_);
        return {below * (2 * full + 1) + (elements_ - below) * (2 * full + 3), 0,
                2 * load + elements_};
    }

    [[nodiscard]] std::optional<Cost> arc(Place a, Place b) const {
        if (a == b) return std::nullopt;
        if (b == hub_) return put_cost(loads_[index(a)]);
        if (a == hub_) {
            if (items_at_[index(b)].empty()) return std::nullopt;
            return -put_cost(loads_[index(b)] - elements_);
        }
        const auto& counts = exchanges_[index(a * hub_ + b)];
        for (int moved = -1; moved <= 1; ++moved) {
            if (counts[index(moved + 1)] > 0) return Cost{0, moved, 0};
        }
        return std::nullopt;
    }

    /// The cheapest ways from the given starts, one arc longer each round.
    struct Reach {
        std::vector<std::optional<Cost>> cost;
        std::vector<std::vector<Place>> from;  // by round; -1: no better than the round before
    };

    /// One more round. False: nothing became cheaper.
    bool extend(Reach& reach) const {
        std::vector<std::optional<Cost>> next = reach.cost;
        std::vector<Place> from(next.size(), -1);
        bool changed = false;
        for (Place a = 0; a <= hub_; ++a) {
            const std::optional<Cost> here = reach.cost[index(a)];
            if (!here) continue;
            for (Place b = 0; b <= hub_; ++b) {
                const auto step = arc(a, b);
                if (!step) continue;
                const Cost cost = *here + *step;
                std::optional<Cost>& known = next[index(b)];
                if (known && *known <= cost) continue;
                known = cost;
                from[index(b)] = a;
                changed = true;
            }
        }
        reach.cost = std::move(next);
        reach.from.push_back(std::move(from));
        return changed;
    }

    /// The negative cycle through a node with the fewest arcs, and of those the most negative.
    [[nodiscard]] std::optional<Cycle> cycle_through(Place node, std::int32_t arcs_max) const {
        Reach reach{std::vector<std::optional<Cost>>(index(hub_ + 1)), {}};
        reach.cost[index(node)] = Cost{};
        for (std::int32_t arcs = 0; arcs < arcs_max; ++arcs) {
            if (!extend(reach)) return std::nullopt;
            const std::optional<Cost> around = reach.cost[index(node)];
            if (!around || *around >= Cost{}) continue;
            Cycle cycle{node};
            for (std::size_t round = reach.from.size(); round-- > 0;) {
                const Place before = reach.from[round][index(cycle.back())];
                if (before >= 0) cycle.push_back(before);
            }
            std::reverse(cycle.begin(), cycle.end());
            return cycle;
        }
        return std::nullopt;
    }

    [[nodiscard]] bool has_negative_cycle() const {
        Reach reach{std::vector<std::optional<Cost>>(index(hub_ + 1), Cost{}), {}};
        for (Place round = 0; round <= hub_; ++round) {
            if (!extend(reach)) return false;
        }
        return true;
    }

    [[nodiscard]] std::optional<Cycle> smallest_cycle() const {
        if (!has_negative_cycle()) return std::nullopt;
        std::optional<Cycle> best;
        std::int32_t arcs_max = hub_ + 1;
        for (Place node = 0; node <= hub_; ++node) {
            auto cycle = cycle_through(node, arcs_max);
            if (!cycle) continue;
            arcs_max = static_cast<std::int32_t>(cycle->size()) - 2;  // the next must be smaller
            best = std::move(cycle);
        }
        ENSURE(best);
        return best;
    }

    /// The first item that can make an exchange at the price that the arc named.
    [[nodiscard]] std::size_t find_item(Place a, Place b) const {
        const auto wanted = arc(a, b);
        for (const std::size_t i : items_at_[index(a)]) {
            bool found = false;
            for_exchanges(i, [&](Place from, Place to, int moved) {
                found = found || (from == a && to == b && Cost{0, moved, 0} == wanted);
            });
            if (found) return i;
        }
        ENSURE(false && "the books name an exchange that no item can make");
        return 0;
    }

    /// False, and nothing changed: the exchanges do not go together.
    bool apply(const Cycle& cycle) {
        Places nodes{cycle.begin(), cycle.end() - 1};
        std::sort(nodes.begin(), nodes.end());
        if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) return false;
        std::map<std::size_t, Places> changed;
        for (std::size_t step = 0; step + 1 < cycle.size(); ++step) {
            const Place a = cycle[step];
            const Place b = cycle[step + 1];
            if (a == hub_ || b == hub_) continue;
            const std::size_t i = find_item(a, b);
            Places& places = changed.try_emplace(i, places_[i]).first->second;
            std::replace(places.begin(), places.end(), a, b);
        }
        for (auto& [i, places] : changed) {
            std::sort(places.begin(), places.end());
            std::set<std::int32_t> hit;
            for (const Place place : places) hit.insert(domain_of(place));
            if (!std::cmp_equal(hit.size(), domains_hit_)) return false;
        }
        for (auto& [i, places] : changed) {
            count(i, -1);
            put(i, std::move(places));
        }
        return true;
    }

    const Spread& spread_;
    std::vector<std::size_t> items_;  // places in spread_.items
    std::int64_t elements_;
    std::int64_t unit_;
    std::vector<std::int64_t>& loads_;  // by place, of all sizes so far
    Place hub_;                         // one past the last place
    std::int32_t domains_hit_ = 0;      // by each item
    std::vector<Places> places_;        // by item
    // Exchanges a -> b at a * places + b, by what they move: -1, 0, 1.
    std::vector<std::array<std::int32_t, 3>> exchanges_;
    std::vector<std::int32_t> shared_;             // items that a and b both have, likewise
    std::vector<std::set<std::size_t>> items_at_;  // by place
};

}  // namespace

std::vector<std::vector<std::int32_t>> spread_evenly(const Spread& spread) {
    ENSURE(spread.copies >= 1 && std::cmp_less_equal(spread.copies, spread.domain_of.size()));
    std::map<std::int64_t, std::vector<std::size_t>, std::greater<>> by_size;
    for (std::size_t i = 0; i < spread.items.size(); ++i) {
        ENSURE(spread.items[i].elements > 0);
        by_size[spread.items[i].elements].push_back(i);
    }
    std::vector<std::vector<std::int32_t>> result(spread.items.size());
    std::vector<std::int64_t> loads(spread.domain_of.size(), 0);
    for (auto& [elements, items] : by_size) {
        SameSize same{spread, std::move(items), by_size.begin()->first, loads};
        same.improve();
        same.write(result);
    }
    return result;
}

}  // namespace rhizome::plan
