// Work of several threads is taken in order, whatever they do.
#include "store/ordered_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "store/made_ahead.h"

namespace ddl::store {
namespace {

std::string made(size_t i) {
  for (size_t wait = 0; wait < (i * 7919) % 300; ++wait) std::this_thread::yield();
  return std::to_string(i);
}

TEST(OrderedWork, ResultsComeInOrder) {
  for (const unsigned threads : {1u, 2u, 5u})
    for (const size_t ahead : {size_t{1}, size_t{3}, size_t{1000}}) {
      OrderedWork<std::string> work(200, threads, ahead, made);
      for (size_t i = 0; i < 200; ++i)
        ASSERT_EQ(work.next(), std::to_string(i)) << threads << " threads, " << ahead << " ahead";
    }
}

TEST(OrderedWork, NoMoreIsHeldThanAsked) {
  std::atomic<size_t> most = 0, taken = 0;
  OrderedWork<size_t> work(300, 4, 5, [&](size_t i) {
    size_t seen = most;
    while (i - taken > seen && !most.compare_exchange_weak(seen, i - taken)) {
    }
    return i;
  });
  for (size_t i = 0; i < 300; ++i, ++taken) ASSERT_EQ(work.next(), i);
  EXPECT_LE(most, 5u);
}

TEST(OrderedWork, WhatOneThrowsComesInItsPlace) {
  OrderedWork<int> work(20, 3, 8, [](size_t i) {
    if (i % 7 == 3) throw std::runtime_error(std::to_string(i));
    return static_cast<int>(i);
  });
  for (size_t i = 0; i < 20; ++i) {
    try {
      EXPECT_EQ(work.next(), static_cast<int>(i));
      EXPECT_NE(i % 7, 3u);
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::to_string(i));
    }
  }
}

TEST(OrderedWork, MayEndBeforeAllIsTaken) {
  for (const size_t taken : {size_t{0}, size_t{3}}) {
    OrderedWork<std::string> work(100, 3, 4, made);
    for (size_t i = 0; i < taken; ++i) work.next();
  }
  const OrderedWork<std::string> nothing(0, 3, 4, made);
}

TEST(MadeAhead, BatchesComeInOrder) {
  for (const bool beside : {false, true}) {
    int next = 0, sum = 0;
    MadeAhead<std::vector<int>> batches(beside, [&](std::vector<int>& batch) {
      batch.assign(3, next);
      return next++ < 100;
    });
    int expected = 0;
    for (std::vector<int> batch; batches.next(batch); ++expected) {
      ASSERT_EQ(batch, std::vector<int>(3, expected)) << beside;
      sum = std::accumulate(batch.begin(), batch.end(), sum);
    }
    EXPECT_EQ(expected, 100);
    EXPECT_EQ(sum, 3 * 99 * 50);
  }
}

TEST(MadeAhead, WhatTheMakerThrowsComesAfterTheBatchesBeforeIt) {
  for (const bool beside : {false, true}) {
    int next = 0;
    MadeAhead<int> batches(beside, [&](int& batch) {
      if (next == 2) throw std::runtime_error("no third one");
      batch = next++;
      return true;
    });
    int batch = -1;
    EXPECT_TRUE(batches.next(batch) && batch == 0);
    EXPECT_TRUE(batches.next(batch) && batch == 1);
    EXPECT_THROW(batches.next(batch), std::runtime_error);
    const MadeAhead<int> left(beside, [](int&) { return true; });  // nobody takes any
  }
}

}  // namespace
}  // namespace ddl::store
