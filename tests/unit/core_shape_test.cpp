#include "core/shape.hpp"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

using testing::ExitedWithCode;

TEST(Shape, MultipliesItsExtents) {
    EXPECT_EQ(Shape{}.elements(), 1) << "a scalar";
    EXPECT_EQ(Shape{}.dimensions(), 0U);
    EXPECT_EQ((Shape{5}.elements()), 5);
    EXPECT_EQ((Shape{2, 3, 5, 7}.elements()), 210);
    EXPECT_EQ((Shape{1 << 20, 1 << 20}.elements()), std::int64_t{1} << 40);
}

TEST(Shape, GivesItsExtentsOutermostFirst) {
    const Shape shape{2, 3, 5};
    EXPECT_EQ(shape.dimensions(), 3U);
    EXPECT_EQ(shape[0], 2);
    EXPECT_EQ(shape[1], 3);
    EXPECT_EQ(shape[2], 5);
}

TEST(Shape, DiffersInAnyExtentAndInTheirNumber) {
    EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
    EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
    EXPECT_NE((Shape{6}), (Shape{2, 3}));
    EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
    EXPECT_NE(Shape{}, Shape{1});
}

TEST(TensorSpec, CountsBytesByItsType) {
    EXPECT_EQ((TensorSpec{"a", Shape{2, 3}, DType::f32}.bytes()), 24);
    EXPECT_EQ((TensorSpec{"a", Shape{2, 3}, DType::f64}.bytes()), 48);
    EXPECT_EQ((TensorSpec{"a", Shape{2, 3}, DType::i32}.bytes()), 24);
    EXPECT_EQ((TensorSpec{"a", Shape{}, DType::f64}.bytes()), 8);
}

TEST(TensorSpec, DiffersInNameShapeAndType) {
    const TensorSpec spec{"a", Shape{2, 3}, DType::f32};
    EXPECT_EQ(spec, (TensorSpec{"a", Shape{2, 3}, DType::f32}));
    EXPECT_NE(spec, (TensorSpec{"b", Shape{2, 3}, DType::f32}));
    EXPECT_NE(spec, (TensorSpec{"a", Shape{3, 2}, DType::f32}));
    EXPECT_NE(spec, (TensorSpec{"a", Shape{2, 3}, DType::f64}));
}

TEST(ShapeDeathTest, RefusesExtentsThatAreNotPositiveOrTooMany) {
    EXPECT_EXIT((Shape{2, 0}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((Shape{-1}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((Shape{1, 1, 1, 1, 1}), ExitedWithCode(1), "broken promise");
}

TEST(ShapeDeathTest, RefusesAPlaceThatItHasNot) {
    const Shape shape{2, 3};
    EXPECT_EXIT((void)shape[2], ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome
