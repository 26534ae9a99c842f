#include "engine/steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace torch_tpu::engine {
namespace {

using Ids = std::vector<uint64_t>;

/// The length that each push gave.
std::vector<size_t> push_all(Steps& steps, const Ids& ids) {
  std::vector<size_t> ended;
  for (uint64_t id : ids) ended.push_back(steps.push(id));
  return ended;
}

TEST(Steps, SeesRepetition) {
  Steps steps;
  push_all(steps, {9, 1, 2, 3, 1, 2});
  EXPECT_EQ(steps.distance(), 3u);
  EXPECT_FALSE(steps.repeats(3));  // 9 is not 3
  steps.push(3);
  EXPECT_TRUE(steps.repeats(3));
  EXPECT_FALSE(steps.repeats(2));
}

TEST(Steps, NothingBeforeTheBeginning) {
  Steps steps;
  steps.push(7);
  EXPECT_EQ(steps.distance(), 0u);
  EXPECT_FALSE(steps.repeats(0));
  EXPECT_FALSE(steps.repeats(1));
  steps.push(7);
  EXPECT_TRUE(steps.repeats(1));
}

TEST(Steps, DistancesGrow) {
  Steps steps;
  push_all(steps, {5, 1, 5, 2, 3, 5});
  EXPECT_EQ(steps.distance(), 3u);
  EXPECT_EQ(steps.next_distance(3), 5u);
  EXPECT_EQ(steps.next_distance(5), 0u);
}

TEST(Steps, KnownStepEnds) {
  Steps steps;
  push_all(steps, {1, 2, 3, 1, 2, 3, 1});
  EXPECT_FALSE(steps.in_step());
  steps.learn(3, 1);  // 1 2 3, and the next one has begun
  EXPECT_TRUE(steps.in_step());
  EXPECT_EQ(push_all(steps, {2, 3, 1, 2, 3}), (std::vector<size_t>{0, 3, 0, 0, 3}));
  EXPECT_FALSE(steps.in_step());
}

TEST(Steps, FindsAKnownStepAgain) {
  Steps steps;
  push_all(steps, {1, 2, 3});
  steps.learn(3, 0);
  EXPECT_EQ(push_all(steps, {1, 2, 8, 1, 1, 2, 3}), (std::vector<size_t>{0, 0, 0, 0, 0, 0, 3}));
}

TEST(Steps, KnowsTheSameStepOnce) {
  Steps steps;
  push_all(steps, {1, 2});
  steps.learn(2, 0);
  steps.learn(2, 0);
  EXPECT_EQ(push_all(steps, {1, 2}), (std::vector<size_t>{0, 2}));
}

TEST(Steps, ForgetsTheOldest) {
  Steps steps;
  for (uint64_t i = 0; i < 200'000; ++i) steps.push(i % 1000);
  EXPECT_EQ(steps.distance(), 1000u);
  EXPECT_TRUE(steps.repeats(1000));
  EXPECT_FALSE(steps.repeats(999));
}

}  // namespace
}  // namespace torch_tpu::engine
