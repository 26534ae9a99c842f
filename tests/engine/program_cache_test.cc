#include "engine/program_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace torch_tpu::engine {
namespace {

std::shared_ptr<Program> program_of(int64_t bytes) {
  auto program = std::make_shared<Program>();
  program->bytes = bytes;
  return program;
}

std::shared_ptr<Program> put(ProgramCache& cache, uint64_t key, int64_t bytes = 1) {
  return cache.find_or_make({&key, 1}, key % 3, [&] { return program_of(bytes); });
}

bool has(ProgramCache& cache, uint64_t key) { return cache.find({&key, 1}, key % 3) != nullptr; }

TEST(ProgramCache, ComparesWholeKeys) {
  ProgramCache cache;
  const auto three = put(cache, 3), six = put(cache, 6);  // of one hash
  EXPECT_NE(three, six);
  EXPECT_EQ(put(cache, 3), three);
  EXPECT_EQ(put(cache, 6), six);
}

TEST(ProgramCache, BoundedByCount) {
  ProgramCache cache(20);
  for (uint64_t key = 0; key < 100; ++key) {
    put(cache, key);
    EXPECT_LE(cache.size(), 20u);
    EXPECT_TRUE(has(cache, 0));  // used all the time
  }
  EXPECT_TRUE(has(cache, 99));
  EXPECT_FALSE(has(cache, 50));
}

TEST(ProgramCache, BoundedByBytes) {
  ProgramCache cache(1000, 100);
  for (uint64_t key = 0; key < 50; ++key) {
    put(cache, key, 10);
    EXPECT_LE(cache.size(), 10u);
    EXPECT_TRUE(has(cache, 0));
  }
  EXPECT_TRUE(has(cache, 49));
}

TEST(ProgramCache, ProgramsGrowWhenTheyAreCompiled) {
  ProgramCache cache(1000, 100);
  const auto first = put(cache, 0);
  put(cache, 1);
  first->bytes = 99;
  EXPECT_TRUE(has(cache, 1));
  put(cache, 2, 10);
  EXPECT_FALSE(has(cache, 0));
  EXPECT_TRUE(has(cache, 2));
}

TEST(ProgramCache, WhatIsTooBigIsKeptUntilTheNext) {
  ProgramCache cache(1000, 100);
  put(cache, 1);
  const auto big = put(cache, 2, 500);
  EXPECT_TRUE(has(cache, 2));
  EXPECT_FALSE(has(cache, 1));
  put(cache, 3);
  EXPECT_FALSE(has(cache, 2));
  EXPECT_EQ(big->bytes, 500);  // who uses it keeps it
}

TEST(ProgramCache, NothingIsKeptOfAFailure) {
  ProgramCache cache;
  const uint64_t key = 1;
  const auto fail = [&]() -> std::shared_ptr<Program> { throw std::runtime_error("no"); };
  EXPECT_THROW(cache.find_or_make({&key, 1}, 1, fail), std::runtime_error);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_NE(put(cache, 1), nullptr);
}

TEST(ProgramCache, ThreadsMakeAProgramOnce) {
  ProgramCache cache(16, 1000);
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t key = 0; key < 8; ++key) {
        cache.find_or_make({&key, 1}, key, [&] {
          ++made;
          std::this_thread::yield();
          return program_of(1);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 8);
}

}  // namespace
}  // namespace torch_tpu::engine
