// A device (the reference, if nothing else is said) with one stream, and tensors that are written
// and read as plain numbers.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "support/numbers.hpp"

namespace rhizome::tests {

class Workbench {
  public:
    explicit Workbench(std::int32_t threads = 1)
        : Workbench{device::make_reference_device(threads)} {}
    explicit Workbench(std::unique_ptr<device::Device> device)
        : device_{std::move(device)}, stream_{device_->make_stream()} {}

    [[nodiscard]] device::Device& device() { return *device_; }
    [[nodiscard]] device::Stream& stream() { return *stream_; }

    /// A tensor that nobody has written yet: all NaN, so that a result shows when it was read. It
    /// has memory of its own, so that a sanitizer sees what reaches beyond it.
    [[nodiscard]] device::Tensor poisoned(const Shape& shape, DType dtype) {
        const TensorSpec spec{"", shape, dtype};
        memory_.push_back(device_->allocate(spec.bytes()));
        const device::Tensor tensor = memory_.back().at(0, spec);
        poison(tensor);
        return tensor;
    }
    [[nodiscard]] device::Tensor put(const Shape& shape, DType dtype,
                                     const std::vector<double>& values) {
        const device::Tensor tensor = poisoned(shape, dtype);
        write(tensor, values);
        return tensor;
    }
    [[nodiscard]] device::Tensor random(const Shape& shape, DType dtype, std::uint64_t seed) {
        return put(shape, dtype, random_numbers(shape.elements(), seed));
    }

    void poison(const device::Tensor& tensor) {
        upload(tensor, std::vector(static_cast<std::size_t>(tensor.bytes()), std::byte{0xFF}));
    }
    /// Rounds to the tensor's type.
    void write(const device::Tensor& tensor, const std::vector<double>& values) {
        ASSERT_EQ(static_cast<std::size_t>(tensor.elements()), values.size());
        switch (tensor.dtype) {
            case DType::f32:
                upload(tensor, std::vector<float>(values.begin(), values.end()));
                break;
            case DType::f64:
                upload(tensor, values);
                break;
            case DType::i32:
                upload(tensor, std::vector<std::int32_t>(values.begin(), values.end()));
                break;
        }
    }

    [[nodiscard]] std::vector<double> read(const device::Tensor& tensor) {
        switch (tensor.dtype) {
            case DType::f32:
                return widened(read_as<float>(tensor));
            case DType::f64:
                return read_as<double>(tensor);
            case DType::i32:
                return widened(read_as<std::int32_t>(tensor));
        }
        return {};
    }
    /// In the tensor's own type.
    template <class T>
    [[nodiscard]] std::vector<T> read_as(const device::Tensor& tensor) {
        std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
        stream_->download(std::as_writable_bytes(std::span{values}), tensor);
        stream_->synchronize();
        return values;
    }
    /// For comparisons to the last bit.
    [[nodiscard]] std::vector<std::byte> bytes(const device::Tensor& tensor) {
        std::vector<std::byte> values(static_cast<std::size_t>(tensor.bytes()));
        stream_->download(values, tensor);
        stream_->synchronize();
        return values;
    }

  private:
    template <class T>
    static std::vector<double> widened(const std::vector<T>& values) {
        return {values.begin(), values.end()};
    }
    template <class T>
    void upload(const device::Tensor& tensor, const std::vector<T>& values) {
        stream_->upload(tensor, std::as_bytes(std::span{values}));
        stream_->synchronize();
    }

    std::unique_ptr<device::Device> device_;
    std::unique_ptr<device::Stream> stream_;
    std::vector<device::Memory> memory_;
};

}  // namespace rhizome::tests
