// What a script needs of safetensors files as this project writes and reads them.
//
//   safetensors_stub copy IN OUT             all tensors and metadata, read and written again
//   safetensors_stub gpt OUT tied|untied f32|f64 initial|formula
//                                            the GPT of tests/golden as it begins, by Hugging
//                                            Face's names; `formula`: with
//                                            gpt_numpy.formula_parameters
//   safetensors_stub again IN OUT [HEADS]    a GPT-2, taken in and exported again
//
// Refusals go to standard error; the exit code is the error's.
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/text.hpp"
#include "model/gpt.hpp"
#include "model/parameters.hpp"
#include "state/hugging_face.hpp"

namespace rhizome {
namespace {

using state::Existing;

void copy(const std::string& in, const std::string& out) {
    const auto files = state::make_file_system();
    const state::SafetensorsReader reader{*files, in};
    std::vector<state::SafetensorsSpec> specs;
    for (const state::SafetensorsTensor& tensor : reader.tensors()) {
        specs.push_back({tensor.name, tensor.shape, reader.dtype_of(tensor)});
    }
    state::SafetensorsWriter writer{*files, out, specs, reader.metadata(), Existing::keep};
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const state::SafetensorsTensor& tensor = reader.tensors()[i];
        std::vector<std::byte> values(static_cast<std::size_t>(tensor.bytes));
        // In two pieces, so that parts of a tensor are read as well.
        const auto element_bytes = bytes_of(specs[i].dtype);
        const std::int64_t first = tensor.bytes / element_bytes / 2;
        const auto first_bytes = static_cast<std::size_t>(first * element_bytes);
        reader.read(tensor, 0, std::span{values}.first(first_bytes));
        reader.read(tensor, first, std::span{values}.subspan(first_bytes));
        writer.write(i, values);
    }
    writer.commit();
}

template <class T>
void fill(std::span<std::byte> to, std::uint64_t number, bool centred_at_one) {
    for (std::uint64_t i = 0; i * sizeof(T) < to.size(); ++i) {
        const std::uint64_t mixed =
            (i * 2654435761 + number * 40503 * 65537) % (std::uint64_t{1} << 32);
        double value = (static_cast<double>(mixed) / 4294967296.0 - 0.5) * 0.8;
        if (centred_at_one) value += 1.0;
        const T rounded = static_cast<T>(value);
        std::memcpy(to.data() + i * sizeof(T), &rounded, sizeof(T));
    }
}

class NetworkSource final : public state::TensorSource {
  public:
    NetworkSource(const model::Network& network, bool formula)
        : network_{network}, owned_{network.table().owned()}, formula_{formula} {}

    void read(std::int32_t tensor, std::span<std::byte> to) override {
        const TensorRef ref = owned_.at(static_cast<std::size_t>(tensor));
        if (!formula_) {
            const std::vector<std::byte> values = model::initial_bytes(network_, 1234, ref);
            ENSURE(values.size() == to.size());
            std::memcpy(to.data(), values.data(), to.size());
            return;
        }
        const std::string name = network_.table().name_of(ref);
        const bool centred_at_one = name.ends_with("norm_1.weight") ||
                                    name.ends_with("norm_2.weight") || name == "final_norm/weight";
        const auto number = static_cast<std::uint64_t>(tensor) + 1;
        if (network_.table().at(ref).spec.dtype == DType::f64) {
            fill<double>(to, number, centred_at_one);
        } else {
            fill<float>(to, number, centred_at_one);
        }
    }

  private:
    const model::Network& network_;
    std::vector<TensorRef> owned_;
    bool formula_;
};

void gpt(const std::string& out, const std::string& head, const std::string& dtype,
         const std::string& values) {
    const model::GptConfig config{
        .blocks = 2,
        .channels = 8,
        .heads = 2,
        .context = 5,
        .vocabulary = 11,
        .tying = head == "tied" ? model::Tying::tied : model::Tying::untied};
    const model::Network network =
        model::make_gpt(config, 2, dtype == "f64" ? DType::f64 : DType::f32, 50);
    NetworkSource source{network, values == "formula"};
    state::export_gpt2(*state::make_file_system(), out, state::stored_table_of(network.table()),
                       config.heads, source, {{"rhizome.mathematics", "seed = 1234\n"}},
                       Existing::keep);
}

void again(const std::string& in, const std::string& out, std::optional<std::int32_t> heads) {
    const auto files = state::make_file_system();
    state::Gpt2File file{*files, in, {.chunk_elements = 50, .heads = heads}};
    state::export_gpt2(*files, out, file.table(), file.heads(), file, file.metadata(),
                       Existing::keep);
}

int run(const std::vector<std::string>& words) {
    if (words.size() == 3 && words[0] == "copy") {
        copy(words[1], words[2]);
    } else if (words.size() == 5 && words[0] == "gpt") {
        gpt(words[1], words[2], words[3], words[4]);
    } else if ((words.size() == 3 || words.size() == 4) && words[0] == "again") {
        std::optional<std::int32_t> heads;
        if (words.size() == 4) {
            heads = static_cast<std::int32_t>(parse_integer(words[3]).value_or(0));
        }
        again(words[1], words[2], heads);
    } else {
        std::fputs("safetensors_stub copy|gpt|again ...\n", stderr);
        return static_cast<int>(ExitCode::bad_config);
    }
    return 0;
}

}  // namespace
}  // namespace rhizome

int main(int count, char** words) {
    try {
        return rhizome::run({words + 1, words + count});
    } catch (const rhizome::UserError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
