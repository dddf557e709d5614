#include "schedule/cost_table.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::schedule {
namespace {

constexpr std::string_view version = "1";
constexpr std::array<std::string_view, 8> columns{
    "forward_s",  "backward_input_s", "backward_weight_s", "update_s",
    "parameters", "wire_bytes",       "saved_bytes",       "deferred_bytes"};
constexpr std::size_t layers_max = 65536;
constexpr double seconds_max = 1e5;
constexpr std::int64_t count_max = std::int64_t{1} << 42;  // also of all layers together

/// One line, taken apart.
class Line {
  public:
    Line(std::string_view text, std::size_t number)
        : text_{text.substr(0, text.find('#'))}, number_{number} {}

    /// The next word; empty at the end.
    std::string_view word() {
        constexpr std::string_view blanks = " \t\r";
        const std::size_t first = text_.find_first_not_of(blanks);
        text_.remove_prefix(std::min(first, text_.size()));
        const std::string_view word = text_.substr(0, text_.find_first_of(blanks));
        text_.remove_prefix(word.size());
        return word;
    }

    [[noreturn]] void fail(const std::string& problem, const std::string& hint) const {
        throw ConfigError{"line " + std::to_string(number_) + " (" + problem + "), " + hint};
    }

    double seconds(std::string_view column, bool may_be_zero) {
        const std::string_view text = word();
        const auto value = parse_number(text);
        const bool is_zero = value && *value == 0 && may_be_zero;
        if (!value || (!is_zero && (*value < least_seconds || *value > seconds_max))) {
            fail(wrong(column, text), "write seconds, from 1e-9 to 1e5");
        }
        return *value;
    }

    std::int64_t count(std::string_view column) {
        const std::string_view text = word();
        const auto value = parse_integer(text);
        if (!value || *value < 0 || *value > count_max) {
            fail(wrong(column, text), "write a whole number");
        }
        return *value;
    }

  private:
    static std::string wrong(std::string_view column, std::string_view text) {
        const std::string name{column};
        return text.empty() ? "has no " + name
                            : "`" + visible(text.substr(0, 40)) + "` is no " + name;
    }

    std::string_view text_;
    std::size_t number_;
};

MeasuredLayer layer_of(Line& line, std::string_view name) {
    MeasuredLayer layer{.name = std::string{name}, .cost = {}};
    layer.cost.forward_s = line.seconds(columns[0], false);
    layer.cost.backward_input_s = line.seconds(columns[1], false);
    layer.cost.backward_weight_s = line.seconds(columns[2], false);
    layer.update_s = line.seconds(columns[3], true);
    layer.parameters = line.count(columns[4]);
    layer.cost.wire_bytes = line.count(columns[5]);
    layer.cost.saved_bytes = line.count(columns[6]);
    layer.cost.deferred_bytes = line.count(columns[7]);
    if (!line.word().empty()) {
        line.fail("has more than " + std::to_string(columns.size()) + " numbers",
                  "remove the rest");
    }
    return layer;
}

}  // namespace

std::string to_text(const CostTable& table, const std::vector<std::string>& notes) {
    std::string text = "rhizome costs " + std::string{version} + "\n";
    for (const std::string& note : notes) text += "# " + visible(note) + "\n";
    std::size_t longest = 6;
    for (const MeasuredLayer& layer : table) longest = std::max(longest, layer.name.size());
    const auto row = [&](const std::string& name, const auto& cell) {
        text += padded(name, longest);
        for (std::size_t c = 0; c < columns.size(); ++c) {
            text += "  " + right_aligned(cell(c), std::max<std::size_t>(columns[c].size(), 11));
        }
        text += "\n";
    };
    row("# name", [](std::size_t c) { return std::string{columns[c]}; });
    for (const MeasuredLayer& layer : table) {
        const LayerCost& cost = layer.cost;
        const std::array<std::string, columns.size()> cells{
            rhizome::to_text(cost.forward_s),         rhizome::to_text(cost.backward_input_s),
            rhizome::to_text(cost.backward_weight_s), rhizome::to_text(layer.update_s),
            std::to_string(layer.parameters),         std::to_string(cost.wire_bytes),
            std::to_string(cost.saved_bytes),         std::to_string(cost.deferred_bytes)};
        row(layer.name, [&](std::size_t c) { return cells[c]; });
    }
    return text;
}

CostTable parse_cost_table(std::string_view text) {
    CostTable table;
    std::set<std::string> names;
    std::int64_t parameters = 0;
    std::int64_t bytes = 0;
    bool begun = false;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        Line line{text.substr(0, end), number};
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::string_view word = line.word();
        if (word.empty()) continue;
        if (!begun) {
            if (word != "rhizome" || line.word() != "costs" || line.word() != version ||
                !line.word().empty()) {
                line.fail("is not `rhizome costs " + std::string{version} + "`",
                          "name a file that `rhizome profile` made");
            }
            begun = true;
            continue;
        }
        table.push_back(layer_of(line, word));
        const MeasuredLayer& layer = table.back();
        if (!names.insert(layer.name).second) {
            line.fail("names `" + visible(layer.name) + "` a second time", "keep one");
        }
        parameters += layer.parameters;
        bytes += layer.cost.wire_bytes + layer.cost.saved_bytes + layer.cost.deferred_bytes;
        if (parameters > count_max || bytes > count_max) {
            line.fail("the layers have more than 2^42 parameters or bytes", "take fewer");
        }
        if (table.size() > layers_max) {
            line.fail("is the " + std::to_string(table.size()) + "th layer", "take fewer");
        }
    }
    if (table.empty()) {
        throw ConfigError{"the table (has no layers), name a file that `rhizome profile` made"};
    }
    return table;
}

Costs costs_of(const CostTable& table) {
    Costs costs;
    double seconds = 0;
    double parameters = 0;
    for (const MeasuredLayer& layer : table) {
        costs.layers.push_back(layer.cost);
        seconds += layer.update_s;
        parameters += static_cast<double>(layer.parameters);
    }
    if (parameters > 0) costs.update_s_per_element = seconds / parameters;
    return costs;
}

std::optional<std::string> find_misfit(const CostTable& table, const LayerTable& network) {
    if (table.size() != network.layers.size()) {
        return "it has " + counted(static_cast<std::int64_t>(table.size()), "layer") +
               ", the network has " + std::to_string(network.layers.size());
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
        const MeasuredLayer& measured = table[i];
        const LayerFacts& layer = network.layers[i];
        if (measured.name != layer.name) {
            return "its layer " + std::to_string(i) + " is " + visible(measured.name) +
                   ", that of the network is " + layer.name;
        }
        const auto differs = [&](std::string_view what, std::int64_t here, std::int64_t there) {
            return measured.name + " has " + std::string{what} + "=" + std::to_string(here) +
                   ", in the network " + std::to_string(there);
        };
        const std::array<std::tuple<std::string_view, std::int64_t, std::int64_t>, 4> sizes{
            {{columns[4], measured.parameters, owned_elements(layer)},
             {columns[5], measured.cost.wire_bytes, layer.costs.output_bytes},
             {columns[6], measured.cost.saved_bytes, layer.costs.saved_bytes},
             {columns[7], measured.cost.deferred_bytes, layer.costs.deferred_bytes}}};
        for (const auto& [what, here, there] : sizes) {
            if (here != there) return differs(what, here, there);
        }
    }
    return std::nullopt;
}

LayerTable layers_of(const CostTable& table) {
    LayerTable layers{.layers = {}, .chunk_elements = 1 << 22};
    for (const MeasuredLayer& measured : table) {
        LayerFacts facts;
        facts.name = measured.name;
        if (measured.parameters > 0) {
            facts.parameters = {{.spec = {"parameters", Shape{measured.parameters}, DType::f32}}};
        }
        facts.costs = {.saved_bytes = measured.cost.saved_bytes,
                       .deferred_bytes = measured.cost.deferred_bytes,
                       .output_bytes = measured.cost.wire_bytes};
        layers.layers.push_back(std::move(facts));
    }
    return layers;
}

}  // namespace rhizome::schedule
