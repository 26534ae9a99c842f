#include "engine/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

namespace torch_tpu::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoBound = int64_t{1} << 40;

/// What belongs to a key, so that any process can tell whether it got the right one.
std::string executable_for(int i) {
  std::mt19937_64 random(i);
  std::string text(1000 + random() % 20000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() {
    std::string name = (fs::temp_directory_path() / "disk_cache_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~DiskCacheTest() override { fs::remove_all(folder_); }

  DiskCache cache(int64_t max_bytes = kNoBound, std::string identity = "plugin 1\nprocessor") {
    return {folder_, max_bytes, std::move(identity)};
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path());
    return out;
  }

  std::string folder_;
};

std::string key_of(const DiskCache& cache, int i) {
  return cache.key("program " + std::to_string(i), "options");
}

/// 0: there is none. 1: the right one. 2: a wrong one.
int look(DiskCache& cache, int i) {
  const auto found = cache.load(key_of(cache, i));
  return !found ? 0 : *found == executable_for(i) ? 1 : 2;
}

pid_t start_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

int exit_status(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST_F(DiskCacheTest, KeepsWhatWasStored) {
  DiskCache c = cache();
  EXPECT_EQ(look(c, 1), 0);
  c.store(key_of(c, 1), executable_for(1));
  EXPECT_EQ(look(c, 1), 1);
  EXPECT_EQ(look(c, 2), 0);
  DiskCache later = cache();
  EXPECT_EQ(look(later, 1), 1);
}

TEST_F(DiskCacheTest, SeveralProcessesAtOnce) {
  // A small bound, so that they also remove files under each other's hands.
  constexpr int64_t kBound = 200'000;
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    children.push_back(start_child([&] {
      DiskCache c = cache(kBound);
      std::mt19937 random(p);
      for (int n = 0; n < 400; ++n) {
        const int i = static_cast<int>(random() % 40);
        if (look(c, i) == 2) return 1;
        c.store(key_of(c, i), executable_for(i));
      }
      return 0;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(exit_status(child), 0);
  DiskCache c = cache(kBound);
  for (int i = 0; i < 40; ++i) EXPECT_NE(look(c, i), 2);
}

TEST_F(DiskCacheTest, KilledWhileWriting) {
  std::mt19937 random(1);
  int right = 0;
  for (int n = 0; n < 20; ++n) {
    const pid_t child = start_child([&]() -> int {
      DiskCache c = cache();
      for (int i = 0;; i = (i + 1) % 50) c.store(key_of(c, i), executable_for(i));
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(child, SIGKILL);
    EXPECT_EQ(exit_status(child), -SIGKILL);
    DiskCache c = cache();
    for (int i = 0; i < 50; ++i) {
      const int state = look(c, i);
      EXPECT_NE(state, 2);
      right += state == 1;
    }
  }
  EXPECT_GT(right, 0);
}

TEST_F(DiskCacheTest, WhatTheDeadLeftIsRemovedLater) {
  const fs::path left = fs::path(folder_) / ".1.2.tmp", fresh = fs::path(folder_) / ".3.4.tmp";
  write(left, "half");
  write(fresh, "half");
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(2));
  DiskCache c = cache();
  c.store(key_of(c, 1), executable_for(1));  // the first store of a process trims
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(DiskCacheTest, ThousandMutatedFiles) {
  DiskCache c = cache();
  c.store(key_of(c, 1), executable_for(1));
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const std::string good = content_of(path);
  std::mt19937_64 random(7);
  for (int n = 0; n < 1000; ++n) {
    std::string bad = good;
    // The header is small, and every other file is hit there.
    const size_t reach = n % 2 ? bad.size() : 40;
    switch (random() % 5) {
      case 0:
        bad.resize(random() % bad.size());
        break;
      case 1:
        bad += std::string(1 + random() % 100, 'x');
        break;
      case 2:
        bad.erase(random() % reach, 1 + random() % 8);
        break;
      case 3:
        for (int k = 0; k < 8; ++k) bad[random() % reach] = static_cast<char>(random());
        break;
      default:
        bad[random() % reach] ^= static_cast<char>(1 << random() % 8);
    }
    write(path, bad);
    EXPECT_EQ(look(c, 1), bad == good ? 1 : 0) << n;
  }
  c.store(key_of(c, 1), executable_for(1));
  EXPECT_EQ(look(c, 1), 1);
}

TEST_F(DiskCacheTest, OtherThingsUnderItsName) {
  DiskCache c = cache();
  c.store(key_of(c, 1), executable_for(1));
  const fs::path path = files()[0];
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(look(c, 1), 0);
  c.store(key_of(c, 1), executable_for(1));  // cannot be; nothing is left over
  EXPECT_EQ(look(c, 1), 0);
  EXPECT_EQ(files().size(), 1u);
  fs::remove(path);
  mkfifo(path.c_str(), 0600);  // reading it would wait for ever
  EXPECT_EQ(look(c, 1), 0);
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  EXPECT_EQ(look(c, 1), 0);
}

TEST_F(DiskCacheTest, ValueOfAnotherKey) {
  DiskCache c = cache();
  c.store(key_of(c, 1), executable_for(1));
  const fs::path one = files()[0];
  c.store(key_of(c, 2), executable_for(2));
  for (const fs::path& path : files()) {
    if (path != one) fs::copy_file(one, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(look(c, 1), 1);
  EXPECT_EQ(look(c, 2), 0);
}

TEST_F(DiskCacheTest, NoRoom) {
  // In a child: the limit stands for a full disk, at every size of what still fits.
  const pid_t child = start_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    DiskCache c = cache();
    const std::string executable = executable_for(1);
    for (size_t room = 0; room < executable.size(); room += 500) {
      const rlimit limit{room, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &limit);
      c.store(key_of(c, 1), executable);
      if (look(c, 1) != 0 || !files().empty()) return 1;
    }
    const rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    c.store(key_of(c, 1), executable);
    return look(c, 1) == 1 ? 0 : 2;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST_F(DiskCacheTest, FolderThatCannotBeWritten) {
  // /proc refuses root too.
  for (const std::string folder : {"/proc/self/cache", "/dev/null/cache"}) {
    DiskCache c(folder, kNoBound, "plugin");
    c.store(key_of(c, 1), executable_for(1));
    EXPECT_EQ(look(c, 1), 0);
  }
  // Filled by another, read by this one. Root may write all the same.
  DiskCache c = cache();
  c.store(key_of(c, 1), executable_for(1));
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  DiskCache reader = cache();
  EXPECT_EQ(look(reader, 1), 1);
  reader.store(key_of(reader, 2), executable_for(2));
  EXPECT_NE(look(reader, 2), 2);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(DiskCacheTest, TwoPlugins) {
  DiskCache one = cache(kNoBound, "plugin 1"), two = cache(kNoBound, "plugin 2");
  one.store(key_of(one, 1), executable_for(1));
  EXPECT_EQ(look(one, 1), 1);
  EXPECT_EQ(look(two, 1), 0);
  two.store(key_of(two, 1), "of the second");
  EXPECT_EQ(look(one, 1), 1);
  EXPECT_EQ(two.load(key_of(two, 1)), "of the second");
  std::vector<std::string> plugins;
  for (const fs::path& path : files()) plugins.push_back(plugin_of_cache_file(path));
  std::ranges::sort(plugins);
  EXPECT_EQ(plugins, (std::vector<std::string>{"plugin 1", "plugin 2"}));
}

TEST_F(DiskCacheTest, LeastRecentlyUsedGoFirst) {
  constexpr int64_t kBound = 300'000;
  DiskCache c = cache(kBound);
  for (int i = 0; i < 100; ++i) {
    c.store(key_of(c, i), executable_for(i));
    EXPECT_EQ(look(c, 0), 1) << i;  // in use all the time
  }
  int64_t size = 0;
  for (const fs::path& path : files()) size += static_cast<int64_t>(fs::file_size(path));
  EXPECT_LE(size, kBound + kBound / 16 + 25'000);  // what may be stored between two trims
  EXPECT_EQ(look(c, 1), 0);
  EXPECT_EQ(look(c, 99), 1);
}

std::string refusal(DiskCache& cache, const fs::path& path) {
  try {
    cache.take_in(path);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST_F(DiskCacheTest, TakesInFilesOfOthers) {
  const fs::path elsewhere = fs::path(folder_) / "elsewhere";
  DiskCache other(elsewhere, kNoBound, "plugin 1"), foreign(elsewhere, kNoBound, "plugin 10");
  other.store(key_of(other, 1), executable_for(1));
  const fs::path good = fs::directory_iterator(elsewhere)->path();
  const fs::path renamed = elsewhere / "renamed";
  fs::rename(good, renamed);
  DiskCache c = cache(kNoBound, "plugin 1");
  EXPECT_EQ(refusal(c, renamed), "");
  EXPECT_EQ(look(c, 1), 1);

  foreign.store(key_of(foreign, 1), executable_for(1));
  fs::remove(renamed);
  const fs::path alien = fs::directory_iterator(elsewhere)->path();
  EXPECT_NE(refusal(c, alien).find("another plugin"), std::string::npos);
  std::string content = content_of(alien);
  content.back() ^= 1;
  write(alien, content);
  EXPECT_NE(refusal(c, alien).find("damaged"), std::string::npos);
  write(alien, "#!/bin/sh");
  EXPECT_NE(refusal(c, alien).find("not a program file"), std::string::npos);
  EXPECT_NE(refusal(c, elsewhere / "missing").find("not a program file"), std::string::npos);
}

}  // namespace
}  // namespace torch_tpu::engine
