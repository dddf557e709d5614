// Memory, views, layouts, and the calls of a stream that move bytes.
#include "device/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/workbench.hpp"

namespace rhizome::tests {
namespace {

using device::Layout;
using device::Memory;
using device::Tensor;
using testing::ElementsAre;
using testing::ExitedWithCode;

TEST(Layout, PlacesTensorsOneBehindTheOtherOnAlignedOffsets) {
    const std::vector<TensorSpec> specs{{"a", Shape{16}, DType::f32},  // exactly one line
                                        {"b", Shape{}, DType::f64},
                                        {"c", Shape{3, 3}, DType::f64},  // 72 bytes
                                        {"d", Shape{1}, DType::i32}};
    const Layout layout{specs};
    EXPECT_THAT(layout.offsets, ElementsAre(0, 64, 128, 256));
    EXPECT_EQ(layout.bytes, 320);
}

TEST(Layout, OfNothingIsEmpty) {
    const Layout layout{{}};
    EXPECT_TRUE(layout.offsets.empty());
    EXPECT_EQ(layout.bytes, 0);
}

TEST(Memory, IsReleasedOnceWhoeverOwnsItLast) {
    std::vector<std::byte> bytes(64);
    int released = 0;
    {
        Memory first{bytes.data(), 64, [&](std::byte* data) {
                         EXPECT_EQ(data, bytes.data());
                         ++released;
                     }};
        Memory second{std::move(first)};
        Memory third;
        third = std::move(second);
        EXPECT_EQ(third.bytes(), 64);
        EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1);
}

TEST(Memory, LendsViewsThatShareItsBytes) {
    Workbench bench;
    const Memory memory = bench.device().allocate(128);
    const Tensor pair = memory.at(64, {"pair", Shape{2}, DType::f64});
    const Tensor second = memory.at(72, {"second", Shape{}, DType::f64});
    bench.write(pair, {1.5, 2.5});
    EXPECT_THAT(bench.read(second), ElementsAre(2.5));
    EXPECT_EQ(pair.data - memory.at(0, {"", Shape{1}, DType::i32}).data, 64);
}

TEST(Memory, IsAlignedForAnyOperation) {
    Workbench bench;
    for (const std::int64_t bytes : {4, 64, 100}) {
        const Memory memory = bench.device().allocate(bytes);
        const Tensor first = memory.at(0, {"", Shape{}, DType::f32});
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data) % Layout::alignment, 0U) << bytes;
    }
}

TEST(MemoryDeathTest, RefusesViewsBeyondItsEnd) {
    Workbench bench;
    const Memory memory = bench.device().allocate(64);
    EXPECT_EXIT((void)memory.at(0, {"", Shape{9}, DType::f64}), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT((void)memory.at(60, {"", Shape{}, DType::f64}), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT((void)memory.at(-8, {"", Shape{}, DType::f64}), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT((void)bench.device().allocate(-1), ExitedWithCode(1), "broken promise");
}

TEST(Tensor, SlicesItsElementsAsAVector) {
    Workbench bench;
    const Tensor matrix = bench.put(Shape{2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(matrix.elements(), 6);
    EXPECT_EQ(matrix.bytes(), 24);
    const Tensor middle = matrix.slice(2, 3);
    EXPECT_EQ(middle.shape, Shape{3});
    EXPECT_THAT(bench.read(middle), ElementsAre(3, 4, 5));
    EXPECT_THAT(bench.read(matrix.slice(5, 1)), ElementsAre(6));
}

TEST(TensorDeathTest, RefusesSlicesThatAreEmptyOrReachBeyondTheEnd) {
    Workbench bench;
    const Tensor matrix = bench.put(Shape{2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
    EXPECT_EXIT((void)matrix.slice(0, 0), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)matrix.slice(4, 3), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)matrix.slice(-1, 2), ExitedWithCode(1), "broken promise");
}

TEST(Stream, MovesBytesUnchangedForEveryType) {
    Workbench bench;
    for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
        const Tensor from = bench.put(Shape{3, 1}, dtype, {7, -13, 1 << 20});
        const Tensor to = bench.poisoned(Shape{3, 1}, dtype);
        bench.stream().copy(to, from);
        EXPECT_THAT(bench.read(to), ElementsAre(7, -13, 1 << 20));
        EXPECT_EQ(bench.bytes(to), bench.bytes(from));
        bench.stream().zero(to);
        EXPECT_EQ(bench.bytes(to), std::vector<std::byte>(bench.bytes(from).size()));
        EXPECT_THAT(bench.read(from), ElementsAre(7, -13, 1 << 20)) << "only `to` was written";
    }
}

TEST(Stream, ZeroesAndCopiesASliceAndNothingAroundIt) {
    Workbench bench;
    const Tensor whole = bench.put(Shape{5}, DType::f64, {1, 2, 3, 4, 5});
    bench.stream().zero(whole.slice(1, 2));
    EXPECT_THAT(bench.read(whole), ElementsAre(1, 0, 0, 4, 5));
    bench.stream().copy(whole.slice(2, 1), whole.slice(4, 1));
    EXPECT_THAT(bench.read(whole), ElementsAre(1, 0, 5, 4, 5));
}

TEST(Stream, RecordsEventsThatAreDoneOnceItIsSynchronized) {
    Workbench bench;
    const Tensor x = bench.put(Shape{2}, DType::f64, {1, 2});
    bench.stream().add(x, x, x);
    const auto event = bench.stream().record();
    const auto other = bench.device().make_stream();
    other->wait(*event);
    other->add(x, x, x);
    other->synchronize();
    bench.stream().synchronize();
    EXPECT_TRUE(event->done());
    EXPECT_THAT(bench.read(x), ElementsAre(4, 8));
}

TEST(StreamDeathTest, RefusesBytesThatDoNotFit) {
    Workbench bench;
    const Tensor two = bench.put(Shape{2}, DType::f32, {1, 2});
    const Tensor integers = bench.put(Shape{2}, DType::i32, {1, 2});
    const Tensor three = bench.put(Shape{3}, DType::f32, {1, 2, 3});
    std::vector<std::byte> bytes(12);
    device::Stream& stream = bench.stream();
    EXPECT_EXIT(stream.upload(two, bytes), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.download(bytes, two), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.copy(two, three), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.copy(two, integers), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.add(two, two, three), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.add(two, two, integers), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.add(integers, integers, integers), ExitedWithCode(1), "broken promise");
}

TEST(ReferenceDevice, NamesItselfAndItsThreadsInTheFingerprint) {
    const std::string one = device::make_reference_device(1)->fingerprint();
    const std::string three = device::make_reference_device(3)->fingerprint();
    EXPECT_THAT(one, testing::StartsWith("reference, rhizome "));
    EXPECT_THAT(one, testing::EndsWith(", 1 thread"));
    EXPECT_THAT(three, testing::EndsWith(", 3 threads"));
    EXPECT_EQ(device::make_reference_device(3)->fingerprint(), three);
}

}  // namespace
}  // namespace rhizome::tests
