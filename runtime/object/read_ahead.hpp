// Chunks of objects that will be read soon, fetched before they are asked for.

#pragma once

#include "runtime/object/object_url.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// A name (object_url as text) and a chunk of its object.
using chunk_name = std::pair<std::string, std::uint64_t>;

/// Bounded: at most `most` chunks are named at a time, from `add` to `remove`; what is added beyond
/// them is left to its read. Any thread.
class read_ahead {
 public:
  /// `fetch` is called by `readers` threads, the chunk that was added first before the others. What
  /// it throws is the read's to say: the chunk is removed.
  using fetching = std::function<void(const object_url&, std::uint64_t chunk)>;
  read_ahead(int readers, std::size_t most, fetching fetch);
  ~read_ahead() { end(); }
  read_ahead(const read_ahead&) = delete;
  read_ahead& operator=(const read_ahead&) = delete;

  /// Waits for what is being fetched, and fetches no more.
  void end();

  /// Nothing for one that is named already.
  void add(const object_url& object, std::uint64_t chunk);

  /// Of a chunk that was read, or is kept no longer. One that waits is not fetched any more.
  void remove(const chunk_name& chunk);

 private:
  void work();

  struct wanted {
    object_url object;
    chunk_name name;
  };
  int readers_;
  std::size_t most_;
  fetching fetch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::set<chunk_name> named_;
  std::deque<wanted> waiting_;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace troupe::runtime
