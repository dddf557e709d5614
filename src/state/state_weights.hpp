// The parameters of a state, tensor by tensor; its moments left out.
#pragma once

#include "state/hugging_face.hpp"
#include "state/state_folder.hpp"

namespace rhizome::state {

class StateWeights final : public TensorSource {
  public:
    explicit StateWeights(std::shared_ptr<StateReader> reader) : reader_{std::move(reader)} {}

    /// Throws StateError, FileError.
    void read(std::int32_t tensor, std::span<std::byte> to) override {
        reader_->read_tensor(tensor, Value::parameter, to);
    }

  private:
    std::shared_ptr<StateReader> reader_;
};

}  // namespace rhizome::state
