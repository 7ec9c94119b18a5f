#include "runtime/object/read_ahead.hpp"

#include "runtime/core/thread.hpp"

#include <exception>

namespace troupe::runtime {

read_ahead::read_ahead(int readers, std::size_t most, fetching fetch)
    : readers_(readers), most_(most), fetch_(std::move(fetch)) {}

void read_ahead::end() {
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
}

void read_ahead::add(const object_url& object, std::uint64_t chunk) {
  chunk_name name{to_string(object), chunk};
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || named_.size() >= most_ || !named_.insert(name).second)
      return;
    waiting_.push_back({object, std::move(name)});
    if (threads_.empty())  // programs that never prefetch have no threads for it
      for (int r = 0; r < readers_; ++r)
        threads_.push_back(start_thread("read ahead", [this] { work(); }));
  }
  changed_.notify_one();
}

void read_ahead::remove(const chunk_name& chunk) {
  const std::lock_guard lock(mutex_);
  if (named_.erase(chunk) > 0)
    std::erase_if(waiting_, [&chunk](const wanted& x) { return x.name == chunk; });
}

void read_ahead::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_)
      return;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    bool failed = false;
    try {
      fetch_(next.object, next.name.second);
    } catch (const std::exception&) {
      failed = true;
    }
    lock.lock();
    if (failed)
      named_.erase(next.name);
  }
}

}  // namespace troupe::runtime
