// The layers of a GPT, one maker each. Private to this room.
#pragma once

#include <memory>

#include "model/gpt_config.hpp"
#include "model/layer.hpp"

namespace rhizome::model {

/// Shapes that all layers of one GPT share.
struct GptShape {
    GptConfig config;
    std::int64_t rows;
    DType dtype;

    [[nodiscard]] std::int64_t positions() const { return config.context; }
    [[nodiscard]] std::int64_t channels() const { return config.channels; }
    [[nodiscard]] std::int64_t tokens() const { return rows * positions(); }
    /// (B, T, width), by default the residual stream's.
    [[nodiscard]] TensorSpec activation(std::string name, std::int64_t width) const {
        return {std::move(name), Shape{rows, positions(), width}, dtype};
    }
    [[nodiscard]] TensorSpec hidden() const { return activation("hidden", channels()); }
    /// (B, T): one number per row that is normalised.
    [[nodiscard]] TensorSpec per_token(std::string name) const {
        return {std::move(name), Shape{rows, positions()}, dtype};
    }
    [[nodiscard]] ParameterSpec vector(std::string name, std::int64_t size,
                                       Initial::Kind initial) const {
        return {{std::move(name), Shape{size}, dtype}, Decay::none, {initial}, std::nullopt};
    }
    [[nodiscard]] ParameterSpec matrix(std::string name, std::int64_t outputs, std::int64_t inputs,
                                       double deviation) const {
        return {{std::move(name), Shape{outputs, inputs}, dtype},
                Decay::weight,
                {Initial::Kind::normal, deviation},
                std::nullopt};
    }
};

[[nodiscard]] std::unique_ptr<Layer> make_embedding(const GptShape& shape, LayerId id);
[[nodiscard]] std::unique_ptr<Layer> make_block(const GptShape& shape, LayerId id);
[[nodiscard]] std::unique_ptr<Layer> make_final_norm(const GptShape& shape, LayerId id);
[[nodiscard]] std::unique_ptr<Layer> make_head(const GptShape& shape, LayerId id);

}  // namespace rhizome::model
