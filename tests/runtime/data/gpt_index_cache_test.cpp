#include "runtime/data/gpt_index_cache.hpp"

#include "runtime/core/log.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <map>
#include <sys/stat.h>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

struct cached {
  scratch_folder folder;
  std::shared_ptr<const token_source> source = write();

  std::shared_ptr<const token_source> write(std::int32_t first = 5) const {
    write_dataset(folder / "data", 97, {{first}, {3}, {7}, {2}, {9}, {4}});
    return std::make_shared<indexed_dataset>(folder / "data");
  }

  gpt_dataset open(std::uint32_t seed = 1234) const {
    return gpt_dataset(source,
                       split_matrix("1"),
                       data_split::train,
                       {.sequence_length = 4,
                        .samples = 10,
                        .seed = seed,
                        .vocabulary = 97,
                        .cache = folder / "cache"});
  }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
      out[entry.path().filename().string()] = read_text(entry.path());
    return out;
  }
};

bool same(const gpt_dataset& a, const gpt_dataset& b) {
  return a.index().documents.digest() == b.index().documents.digest()
         && a.index().bounds.digest() == b.index().bounds.digest()
         && a.index().order.digest() == b.index().order.digest();
}

}  // namespace

TEST_CASE("an index has exactly the elements of its shape", "[data]") {
  const index_array two({index_type::i32, {2}}, std::vector<std::int32_t>{3, -4});
  CHECK(two[1] == -4);
  CHECK_BREAKS("INDEX-1", two[2]);
  CHECK_BREAKS("INDEX-2", index_array({index_type::i32, {3}}, std::vector<std::int32_t>{3, 4}));
}

TEST_CASE("an index is built once, then mapped", "[data]") {
  const cached c;
  const auto built = c.open();
  const auto before = c.files();
  CHECK(before.size() == 5);  // three arrays, the description, the lock
  std::map<std::string, std::filesystem::file_time_type> times;
  for (const auto& entry : std::filesystem::directory_iterator(c.folder / "cache"))
    times[entry.path().filename().string()] = entry.last_write_time();
  const auto mapped = c.open();
  CHECK(same(built, mapped));
  for (const auto& entry : std::filesystem::directory_iterator(c.folder / "cache"))
    CHECK(times[entry.path().filename().string()] == entry.last_write_time());

  std::vector<std::int32_t> a(5), b(5);
  for (std::uint64_t i = 0; i < built.size(); ++i) {
    built.sample(i, a);
    mapped.sample(i, b);
    CHECK(a == b);
  }
}

TEST_CASE("unfinished index files of killed runs are removed when they are old", "[data]") {
  const cached it;
  it.open();
  const auto before = it.files();
  for (const auto& [name, text] : before) {
    write_text(it.folder / "cache" / (name + ".partial-8"), "half");  // possibly of another host
    const auto old = it.folder / "cache" / (name + ".partial-7");
    write_text(old, "half");
    std::filesystem::last_write_time(
        old, std::filesystem::file_time_type::clock::now() - surely_dead - std::chrono::hours(1));
  }
  it.open();
  const auto after = it.files();
  for (const auto& [name, text] : before) {
    CAPTURE(name);
    CHECK(after.contains(name + ".partial-7") == name.ends_with("lock"));
    CHECK(after.contains(name + ".partial-8"));
  }
}

TEST_CASE("another seed or another data set has another index", "[data]") {
  cached c;
  c.open();
  c.open(1235);
  CHECK(c.files().size() == 10);
  c.source = c.write(6);
  CHECK(c.open().index().documents.size() == 12);
  CHECK(c.files().size() == 15);
}

TEST_CASE("a cached index with any byte changed or missing is built again", "[data]") {
  set_log_level(severity::error);  // hides the expected warnings
  const cached c;
  const auto good = c.open();
  const auto files = c.files();
  for (const auto& [name, bytes] : files) {
    if (name.ends_with("lock"))
      continue;
    const auto path = c.folder / "cache" / name;
    for (std::size_t at = 0; at < bytes.size(); at += 7) {
      auto changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x10);
      write_text(path, changed);
      REQUIRE(same(c.open(), good));
      REQUIRE(read_text(path) == bytes);
    }
    for (const std::size_t size : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      write_text(path, bytes.substr(0, size));
      REQUIRE(same(c.open(), good));
      REQUIRE(read_text(path) == bytes);
    }
    std::filesystem::remove(path);
    CHECK(same(c.open(), good));
  }
  CHECK(c.files() == files);
  set_log_level(severity::info);
}

TEST_CASE("a FIFO in the cache is not an index and blocks no reader", "[data]") {
  set_log_level(severity::error);
  const cached c;
  const auto good = c.open();
  const auto files = c.files();
  for (const auto& [name, bytes] : files) {
    const auto path = c.folder / "cache" / name;
    std::filesystem::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(same(c.open(), good));
    CHECK(std::filesystem::is_fifo(path));
    std::filesystem::remove(path);
    CHECK(same(c.open(), good));
  }
  CHECK(c.files() == files);
  set_log_level(severity::info);
}

TEST_CASE("threads that request one index at the same time all get it", "[data]") {
  const cached c;
  std::vector<std::string> digests(8);
  {
    std::vector<std::jthread> threads;
    for (auto& digest : digests)
      threads.emplace_back([&c, &digest] { digest = c.open().index().order.digest(); });
  }
  for (const auto& digest : digests)
    CHECK(digest == digests.front());
  CHECK(c.files().size() == 5);
}

TEST_CASE("an index that cannot be cached is still used", "[data]") {
  const cached c, usual;
  write_text(c.folder / "cache", "a file in the way");
  CHECK(same(c.open(), usual.open()));
  CHECK(read_text(c.folder / "cache") == "a file in the way");
}

TEST_CASE("an index on a disk that fails at any write is still used", "[data]") {
  const cached usual;
  const auto expected = usual.open();
  for (std::uint64_t nth = 1;; ++nth) {
    const cached c;
    std::uint64_t calls = 0;
    {
      const planted_disk_fault fault(
          {.below = (c.folder / "cache").string(), .nth = nth, .error = ENOSPC, .count = 1000});
      CHECK(same(c.open(), expected));
      calls = disk_calls();
    }
    CHECK(same(c.open(), expected));  // whatever files remain
    if (calls < nth) {
      CHECK(nth > 20);  // four files, each opened, written, synced, renamed
      break;
    }
  }
}

TEST_CASE("a cancelled build of an index leaves no files", "[data]") {
  const cached c;
  const cancel_token stop;
  stop.cancel();
  CHECK_THROWS_AS(gpt_dataset(c.source,
                              split_matrix("1"),
                              data_split::train,
                              {.sequence_length = 4,
                               .samples = 10,
                               .vocabulary = 97,
                               .cache = c.folder / "cache",
                               .stop = stop}),
                  cancelled);
  for (const auto& [name, text] : c.files())
    CHECK(name.ends_with("lock"));
}
