#include "plan/cut.hpp"

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::plan {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::string bytes_text(std::int64_t bytes) { return to_short(static_cast<double>(bytes)) + "B"; }

/// The layers of one stage, growing at the end. Both the search and stage_seconds add in this
/// order, so that one stage has one number of seconds, bit for bit.
struct Growing {
    const StageHost& host;
    double seconds = 0;
    std::int64_t bytes = 0;

    void add(const LayerLoad& layer) {
        seconds += layer.seconds;
        bytes += layer.state_bytes + host.in_flight * layer.microbatch_bytes;
    }
    [[nodiscard]] double stage_s() const { return seconds * host.slowness; }
    [[nodiscard]] bool fits() const { return bytes <= host.memory_bytes_max; }
};

Growing grown(const std::vector<LayerLoad>& layers, LayerRange stage, const StageHost& host) {
    Growing sum{host};
    for (auto i = static_cast<std::size_t>(stage.first); i < static_cast<std::size_t>(stage.last);
         ++i) {
        sum.add(layers[i]);
    }
    return sum;
}

/// The best way to give layers [i, end) to stages [s, end), for all s and i.
struct Best {
    std::size_t layers;
    std::vector<double> value;        // never: no way
    std::vector<std::size_t> border;  // where stage s ends

    Best(std::size_t stages, std::size_t layers_of_network)
        : layers{layers_of_network},
          value((stages + 1) * (layers + 1), never),
          border(value.size(), 0) {
        value.back() = 0;
    }
    [[nodiscard]] std::size_t at(std::size_t stage, std::size_t layer) const {
        return stage * (layers + 1) + layer;
    }
};

/// Dynamic programming from the last stage to the first. `join` makes one value of a stage's
/// seconds and the value of the stages behind it; stages slower than the limit are not taken. The
/// first of equal borders stays, which makes the cut the lexicographically smallest.
template <class Join>
Best search(const std::vector<LayerLoad>& layers, const std::vector<StageHost>& hosts,
            double limit_s, Join join) {
    Best best{hosts.size(), layers.size()};
    for (std::size_t stage = hosts.size(); stage-- > 0;) {
        const std::size_t behind = hosts.size() - stage - 1;
        for (std::size_t first = stage; first + behind < layers.size(); ++first) {
            Growing sum{hosts[stage]};
            const std::size_t here = best.at(stage, first);
            for (std::size_t last = first + 1; last + behind <= layers.size(); ++last) {
                sum.add(layers[last - 1]);
                if (!sum.fits() || sum.stage_s() > limit_s) break;  // more layers only add
                const double rest = best.value[best.at(stage + 1, last)];
                if (rest == never) continue;
                const double value = join(sum.stage_s(), rest);
                if (value < best.value[here]) {
                    best.value[here] = value;
                    best.border[here] = last;
                }
            }
        }
    }
    return best;
}

/// What the longest run of layers is that fits when every stage takes as many as it can.
std::size_t layers_that_fit(const std::vector<LayerLoad>& layers,
                            const std::vector<StageHost>& hosts) {
    std::size_t next = 0;
    for (const StageHost& host : hosts) {
        Growing sum{host};
        while (next < layers.size()) {
            sum.add(layers[next]);
            if (!sum.fits()) break;
            ++next;
        }
    }
    return next;
}

LayerRange one_layer(std::size_t layer) {
    const auto first = static_cast<std::int32_t>(layer);
    return {first, first + 1};
}

std::string find_misfit(const std::vector<LayerLoad>& layers, const std::vector<StageHost>& hosts) {
    const auto fits_alone = [&](std::size_t layer, const StageHost& host) {
        return grown(layers, one_layer(layer), host).fits();
    };
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        bool fits = false;
        for (const StageHost& host : hosts) {
            least = std::min(least, stage_bytes(layers, one_layer(layer), host));
            fits = fits || fits_alone(layer, host);
        }
        if (!fits) {
            return "layer " + std::to_string(layer) + " alone needs " + bytes_text(least) +
                   ", which no worker has";
        }
    }
    for (std::size_t stage = 0; stage < hosts.size(); ++stage) {
        bool fits = false;  // one of the layers that leave enough for the stages on both sides
        for (std::size_t layer = stage; layer + hosts.size() <= layers.size() + stage; ++layer) {
            fits = fits || fits_alone(layer, hosts[stage]);
        }
        if (!fits) {
            return "the worker of stage " + std::to_string(stage) + " has " +
                   bytes_text(hosts[stage].memory_bytes_max) +
                   ", too little for any layer it could have";
        }
    }
    const std::size_t fitting = layers_that_fit(layers, hosts);
    if (fitting < layers.size()) {
        return "the workers' memory holds " + std::to_string(fitting) + " of " +
               std::to_string(layers.size()) + " layers";
    }
    return "no cut fits into the workers' memory";
}

bool is_item_text(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789-") == std::string_view::npos;
}

/// "4" or "4-6", both inclusive.
std::optional<LayerRange> parse_range(std::string_view text, std::int32_t layers) {
    const std::size_t hyphen = text.find('-');
    const auto first = parse_integer(text.substr(0, hyphen));
    const auto last =
        hyphen == std::string_view::npos ? first : parse_integer(text.substr(hyphen + 1));
    if (!is_item_text(text) || !first || !last) return std::nullopt;
    if (*first < 0 || *last < 0) return std::nullopt;
    // Numbers far outside become one just outside, which is refused as it stands.
    const auto near = [layers](std::int64_t number) {
        return static_cast<std::int32_t>(std::min<std::int64_t>(number, layers));
    };
    return LayerRange{near(*first), near(*last) + 1};
}

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> items;
    for (std::size_t begin = 0;;) {
        const std::size_t comma = text.find(',', begin);
        items.push_back(text.substr(begin, comma - begin));
        if (comma == std::string_view::npos) return items;
        begin = comma + 1;
    }
}

/// Reason and hint of a text that is no cut.
struct Fault {
    std::string reason;
    std::string hint;
};

std::string last_layer_text(std::int32_t layers) {
    return "the last layer is " + std::to_string(layers - 1);
}

std::optional<Fault> find_fault_of_list(const std::vector<LayerRange>& stages,
                                        std::int32_t layers) {
    std::int32_t next = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const std::string stage = "stage " + std::to_string(s);
        if (next == layers) return Fault{last_layer_text(layers), "end there"};
        if (stages[s].first != next) {
            return Fault{stage + " does not begin at layer " + std::to_string(next),
                         "let each stage begin where the one before it ends"};
        }
        if (stages[s].size() <= 0) {
            return Fault{stage + " ends before it begins", "write first and last layer, as in 0-3"};
        }
        if (stages[s].last > layers) return Fault{last_layer_text(layers), "end there"};
        next = stages[s].last;
    }
    if (next == layers) return std::nullopt;
    return Fault{"layer " + std::to_string(next) + " is in no stage, " + last_layer_text(layers),
                 "end there"};
}

std::optional<Fault> find_fault_of_borders(const std::vector<LayerRange>& borders,
                                           std::int32_t layers) {
    std::int32_t before = 0;
    for (const LayerRange& border : borders) {
        if (border.size() != 1) {
            return Fault{"a list of stages begins with layer 0, a list of borders has no hyphens",
                         "begin with 0 or write single layers"};
        }
        if (border.first <= before) {
            return Fault{"the borders do not ascend", "name the first layer of each further stage"};
        }
        if (border.first >= layers) {
            return Fault{last_layer_text(layers), "take borders of at most that"};
        }
        before = border.first;
    }
    return std::nullopt;
}

}  // namespace

std::vector<LayerLoad> layer_loads(const LayerTable& table, const schedule::Costs& costs,
                                   std::int64_t state_bytes_per_element) {
    ENSURE(costs.layers.size() == table.layers.size());
    std::vector<LayerLoad> loads;
    for (std::size_t i = 0; i < table.layers.size(); ++i) {
        const schedule::LayerCost& cost = costs.layers[i];
        std::int64_t elements = 0;
        for (const ParameterFacts& parameter : table.layers[i].parameters) {
            elements += parameter.spec.shape.elements();
        }
        loads.push_back({.seconds = cost.forward_s + cost.backward_input_s + cost.backward_weight_s,
                         .state_bytes = elements * state_bytes_per_element,
                         .microbatch_bytes = cost.saved_bytes + cost.deferred_bytes});
    }
    return loads;
}

std::string NoCut::message() const { return problem + " (" + reason + "), " + hint; }

double stage_seconds(const std::vector<LayerLoad>& layers, LayerRange stage,
                     const StageHost& host) {
    return grown(layers, stage, host).stage_s();
}

std::int64_t stage_bytes(const std::vector<LayerLoad>& layers, LayerRange stage,
                         const StageHost& host) {
    return grown(layers, stage, host).bytes;
}

double slowest_stage_s(const std::vector<LayerLoad>& layers, const Cut& cut,
                       const std::vector<StageHost>& hosts) {
    ENSURE(cut.size() == hosts.size());
    double slowest = 0;
    for (std::size_t s = 0; s < cut.size(); ++s) {
        slowest = std::max(slowest, stage_seconds(layers, cut[s], hosts[s]));
    }
    return slowest;
}

MaybeCut cut_layers(const std::vector<LayerLoad>& layers, const std::vector<StageHost>& hosts) {
    ENSURE(!layers.empty() && !hosts.empty());
    for (const LayerLoad& layer : layers) {
        ENSURE(layer.seconds >= 0 && layer.state_bytes >= 0 && layer.microbatch_bytes >= 0);
    }
    for (const StageHost& host : hosts) ENSURE(host.slowness > 0 && host.in_flight >= 0);
    const std::string problem = "stages=" + std::to_string(hosts.size());
    if (hosts.size() > layers.size()) {
        const std::string most = std::to_string(layers.size());
        return NoCut{problem, "the network has " + most + " layers", "take at most " + most};
    }
    const auto slowest = [](double stage_s, double rest) { return std::max(stage_s, rest); };
    const double limit_s = search(layers, hosts, never, slowest).value.front();
    if (limit_s == never) {
        return NoCut{problem, find_misfit(layers, hosts),
                     "take more stages, fewer microbatches in flight or workers with more memory"};
    }
    const auto squares = [](double stage_s, double rest) { return stage_s * stage_s + rest; };
    const Best best = search(layers, hosts, limit_s, squares);
    Cut cut;
    std::size_t first = 0;
    for (std::size_t s = 0; s < hosts.size(); ++s) {
        const std::size_t last = best.border[best.at(s, first)];
        cut.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)});
        first = last;
    }
    return cut;
}

MaybeCut parse_cut(std::string_view text, std::int32_t layers) {
    ENSURE(layers > 0);
    const std::string problem = "cut=" + visible(text);
    if (text.empty()) {
        return NoCut{problem, "names no stage",
                     "write stages, as in 0-3,4,5-8, or borders, as in 4,5"};
    }
    std::vector<LayerRange> ranges;
    for (const std::string_view item : split(text)) {
        const auto range = parse_range(item, layers);
        if (!range) {
            return NoCut{problem,
                         "`" + visible(item) + "` is neither a layer nor a range of layers",
                         "write stages, as in 0-3,4,5-8, or borders, as in 4,5"};
        }
        ranges.push_back(*range);
    }
    if (ranges.front().first == 0) {
        if (auto fault = find_fault_of_list(ranges, layers)) {
            return NoCut{problem, fault->reason, fault->hint};
        }
        return ranges;
    }
    if (auto fault = find_fault_of_borders(ranges, layers)) {
        return NoCut{problem, fault->reason, fault->hint};
    }
    Cut cut;
    std::int32_t first = 0;
    for (const LayerRange& border : ranges) {
        cut.push_back({first, border.first});
        first = border.first;
    }
    cut.push_back({first, layers});
    return cut;
}

std::string text_of(const Cut& cut) {
    std::string text;
    for (const LayerRange& stage : cut) {
        if (!text.empty()) text += ',';
        text += std::to_string(stage.first);
        if (stage.size() > 1) text += '-' + std::to_string(stage.last - 1);
    }
    return text;
}

}  // namespace rhizome::plan
