// A network: a list of layers whose wires fit. Nothing outside this room knows what kind it is; the
// pure rooms get its table, the engine calls its layers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/layer_table.hpp"
#include "model/layer.hpp"

namespace rhizome::model {

/// One value of a wire: output number `output` of layer `writer`. A wire that is written again is a
/// new value, so gradients have an unambiguous home.
struct WireValue {
    LayerId writer;
    std::int32_t output;
    friend auto operator<=>(const WireValue&, const WireValue&) = default;
};

class Network {
  public:
    /// Checks that the wires fit and that each value is read, that tied tensors exist earlier and
    /// have the same shape, and that the last layer, and it alone, adds the loss; any of this wrong
    /// is our mistake.
    Network(std::vector<std::unique_ptr<Layer>> layers, std::int64_t chunk_elements);

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(layers_.size()); }
    [[nodiscard]] const Layer& layer(LayerId id) const { return *layers_[id.index()]; }
    [[nodiscard]] const LayerTable& table() const { return table_; }

    /// The values that a layer's `reads` stand for, in their order.
    [[nodiscard]] const std::vector<WireValue>& values_read(LayerId id) const {
        return values_read_[id.index()];
    }
    /// The values that cross a cut behind this layer, in the order of the table's `outputs`.
    [[nodiscard]] const std::vector<WireValue>& values_behind(LayerId id) const {
        return values_behind_[id.index()];
    }
    /// The last layer that reads a value. In backward it is the first to give the value a gradient;
    /// the others add theirs, last layer first.
    [[nodiscard]] LayerId last_reader(WireValue value) const { return last_reader_.at(value); }

  private:
    void connect_wires();
    void fill_table();

    std::vector<std::unique_ptr<Layer>> layers_;
    LayerTable table_;
    std::vector<std::vector<WireValue>> values_read_;
    std::vector<std::vector<WireValue>> values_behind_;
    std::map<WireValue, LayerId> last_reader_;
};

/// Bytes of the largest tensor that an operation of the network gets.
[[nodiscard]] std::int64_t largest_tensor(const Network& network);

}  // namespace rhizome::model
