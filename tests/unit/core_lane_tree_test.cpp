#include "core/lane_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace rhizome {
namespace {

using testing::ElementsAre;
using testing::ExitedWithCode;

/// "((0 1)(2 3)) 4": a pair of brackets for every node below the root that is no leaf.
std::string draw(LaneRange tree) {
    if (tree.size() == 1) return std::to_string(tree.first);
    const auto child = [](LaneRange range) {
        return range.size() == 1 ? draw(range) : "(" + draw(range) + ")";
    };
    const std::int32_t middle = tree_split(tree);
    const std::string left = child({tree.first, middle});
    const std::string right = child({middle, tree.last});
    const bool brackets_part_them = left.back() == ')' && right.front() == '(';
    return left + (brackets_part_them ? "" : " ") + right;
}

/// Every node of the tree over [0, lanes), with its parent.
using Nodes = std::map<LaneRange, std::optional<LaneRange>>;

void add_nodes(LaneRange tree, std::optional<LaneRange> parent, Nodes& nodes) {
    nodes.emplace(tree, parent);
    if (tree.size() == 1) return;
    std::int32_t left = 1;  // the largest power of two smaller than the size
    while (2 * left < tree.size()) left *= 2;
    add_nodes({tree.first, tree.first + left}, tree, nodes);
    add_nodes({tree.first + left, tree.last}, tree, nodes);
}

Nodes nodes_of(std::int32_t lanes) {
    Nodes nodes;
    add_nodes({0, lanes}, std::nullopt, nodes);
    return nodes;
}

bool lies_in(LaneRange inner, LaneRange outer) {
    return outer.first <= inner.first && inner.last <= outer.last;
}

TEST(LaneTree, IsTheOneDrawnInTheHeader) {
    std::ifstream file{RHIZOME_TESTS "/../src/core/lane_tree.hpp"};
    ASSERT_TRUE(file.is_open());
    std::stringstream text;
    text << file.rdbuf();
    const std::string header = text.str();
    const std::string mark = " lanes  ";  // as in "3 lanes  (0 1) 2"
    int drawings = 0;
    for (auto at = header.find(mark); at != std::string::npos; at = header.find(mark, at + 1)) {
        const std::size_t number = header.find_last_not_of("0123456789", at - 1) + 1;
        const std::size_t first = at + mark.size();
        const std::size_t last = std::min(header.find("  ", first), header.find('\n', first));
        const int lanes = std::stoi(header.substr(number, at - number));
        EXPECT_EQ(draw({0, lanes}), header.substr(first, last - first));
        ++drawings;
    }
    EXPECT_EQ(drawings, 4);
}

TEST(LaneTree, DrawsTheSameWhereverItBegins) {
    EXPECT_EQ(draw({0, 1}), "0");
    EXPECT_EQ(draw({0, 2}), "0 1");
    EXPECT_EQ(draw({0, 7}), "((0 1)(2 3))((4 5) 6)");
    EXPECT_EQ(draw({3, 8}), "((3 4)(5 6)) 7");
}

TEST(LaneTree, GivesThreePipelinesOfEightLanesTwoTwoAndOneSubtrees) {
    EXPECT_THAT(complete_subtrees(8, {0, 3}), ElementsAre(LaneRange{0, 2}, LaneRange{2, 3}));
    EXPECT_THAT(complete_subtrees(8, {3, 6}), ElementsAre(LaneRange{3, 4}, LaneRange{4, 6}));
    EXPECT_THAT(complete_subtrees(8, {6, 8}), ElementsAre(LaneRange{6, 8}));
}

TEST(LaneTree, GivesAllLanesTheRootAndOneLaneItself) {
    for (std::int32_t lanes = 1; lanes <= 40; ++lanes) {
        EXPECT_THAT(complete_subtrees(lanes, {0, lanes}), ElementsAre(LaneRange{0, lanes}));
        for (std::int32_t lane = 0; lane < lanes; ++lane) {
            const LaneRange alone{lane, lane + 1};
            EXPECT_THAT(complete_subtrees(lanes, alone), ElementsAre(alone));
        }
    }
}

TEST(LaneTree, CoversEveryPartWithSubtreesThatAreDisjointAndAsLargeAsTheyCanBe) {
    for (std::int32_t lanes = 1; lanes <= 40; ++lanes) {
        const Nodes nodes = nodes_of(lanes);
        for (std::int32_t first = 0; first < lanes; ++first) {
            for (std::int32_t last = first + 1; last <= lanes; ++last) {
                SCOPED_TRACE(testing::Message() << lanes << ": [" << first << ", " << last << ")");
                const LaneRange part{first, last};
                std::int32_t covered = first;
                for (const LaneRange subtree : complete_subtrees(lanes, part)) {
                    ASSERT_EQ(subtree.first, covered) << "a gap, or lanes twice";
                    covered = subtree.last;
                    ASSERT_TRUE(nodes.contains(subtree));
                    const std::optional<LaneRange> parent = nodes.at(subtree);
                    ASSERT_TRUE(!parent || !lies_in(*parent, part)) << "a larger one fits";
                }
                ASSERT_EQ(covered, last);
            }
        }
    }
}

TEST(LaneTree, KnowsTheParentOfEveryNode) {
    for (std::int32_t lanes = 2; lanes <= 40; ++lanes) {
        for (const auto& [node, parent] : nodes_of(lanes)) {
            if (!parent) continue;
            EXPECT_EQ(parent_of(lanes, node), *parent);
            const std::int32_t middle = tree_split(*parent);
            EXPECT_TRUE(node.first == middle || node.last == middle);
        }
    }
}

TEST(CommonLanes, AreThoseOfAllInSubtreesThatNobodyHasAddedToMore) {
    using Sets = std::vector<std::vector<bool>>;
    const auto common = [](const Sets& sets) {
        std::string text;
        for (const bool lane : common_lanes(sets)) text += lane ? '1' : '0';
        return text;
    };
    const std::vector<bool> all(8, true);
    const std::vector<bool> none(8, false);
    EXPECT_EQ(common({all, all}), "11111111");
    EXPECT_EQ(common({all, none}), "00000000");
    // (0 1) is one sum on the second, of which the first has a half.
    EXPECT_EQ(common({{1, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0, 0}}), "00000000");
    // Lanes 1 and 2 have no parent in common, so they stay apart.
    EXPECT_EQ(common({{0, 1, 0, 0, 0, 0, 0, 0}, {0, 1, 1, 0, 0, 0, 0, 0}}), "01000000");
    // What goes for the second takes a subtree of the first with it, and that one of the third.
    EXPECT_EQ(common({{1, 1, 1, 1, 0, 0, 1, 0}, {1, 1, 1, 0, 0, 0, 1, 0}, all}), "00000000");
    EXPECT_EQ(common({{1, 1, 1, 1, 0, 0, 1, 0}, {1, 1, 1, 1, 1, 1, 1, 0}}), "11110010");
    // Five lanes: ((0 1)(2 3)) 4.
    EXPECT_EQ(common({{1, 1, 1, 1, 0}, {1, 1, 1, 1, 1}}), "00000");
    EXPECT_EQ(common({{1, 1, 0, 0, 1}, {1, 1, 1, 0, 1}}), "11001");
}

TEST(LaneTreeDeathTest, RefusesWhatIsNoSubtreeOrHasNoParent) {
    EXPECT_EXIT((void)parent_of(8, {0, 8}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)parent_of(8, {1, 3}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)parent_of(8, {3, 5}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)parent_of(8, {6, 9}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)tree_split({3, 4}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)complete_subtrees(8, {3, 3}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)complete_subtrees(8, {-1, 3}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)complete_subtrees(8, {7, 9}), ExitedWithCode(1), "broken promise");
}

TEST(LaneShape, DealsMicrobatchesOutInRunsOfEqualLength) {
    const LaneShape shape{12, 4};
    EXPECT_EQ(shape.length(), 3);
    for (std::int32_t m = 0; m < 12; ++m) {
        EXPECT_EQ(shape.lane_of(Microbatch{m}), Lane{m / 3});
    }
    for (std::int32_t lane = 0; lane < 4; ++lane) {
        EXPECT_EQ(shape.first_of(Lane{lane}), Microbatch{3 * lane});
    }
}

TEST(LaneShapeDeathTest, RefusesCountsThatDoNotDivideAndPlacesBeyondTheEnd) {
    EXPECT_EXIT((LaneShape{12, 5}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((LaneShape{12, 0}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((LaneShape{0, 1}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((LaneShape{-12, 4}), ExitedWithCode(1), "broken promise");
    const LaneShape shape{12, 4};
    EXPECT_EXIT((void)shape.lane_of(Microbatch{12}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)shape.first_of(Lane{4}), ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome
