// Subword models: encode one word. A tokenizer.json calls this part its model.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Cache of the ids of recent words. It is direct-mapped and has a fixed size. Not thread-safe.
class word_cache {
 public:
  static constexpr std::size_t words = 1 << 14;
  static constexpr std::size_t longest = 48;  ///< in bytes; longer words are not cached

  /// Appends the ids of `word`. On a miss, calls `make` to append them to a vector.
  template <class F>
  void append(std::string_view word, std::vector<std::int32_t>& ids, F&& make) {
    if (word.size() > longest)
      return make(ids);
    auto& known = known_[hash64(word) % words];
    if (known.word != word) {
      known.word.clear();  // if make() throws, the slot must not match any word
      known.ids.clear();
      make(known.ids);
      known.word = word;
    }
    ids.insert(ids.end(), known.ids.begin(), known.ids.end());
  }

 private:
  struct known_word {
    std::string word;
    std::vector<std::int32_t> ids;
  };
  std::vector<known_word> known_ = std::vector<known_word>(words);
};

/// Buffers for one thread; each model derives its own.
struct subword_worker {
  static constexpr std::size_t kept = 1 << 16;  ///< maximum elements a buffer keeps between calls

  virtual ~subword_worker() = default;

  /// Frees buffers that grew for a long word.
  virtual void shed() {}

  /// Frees the buffer if its capacity exceeds `kept`.
  template <class T>
  static void free_if_large(std::vector<T>& buffer) {
    if (buffer.capacity() > kept)
      std::vector<T>().swap(buffer);
  }

  word_cache known;
};

/// Pool of idle workers. Thread-safe.
class worker_pool {
 public:
  /// A worker in use; returns it to the pool on destruction.
  class lease {
   public:
    lease(worker_pool& from, std::unique_ptr<subword_worker> x)
        : from_(from), held_(std::move(x)) {}
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease() { from_.give_back(std::move(held_)); }

    subword_worker& operator*() const { return *held_; }

   private:
    worker_pool& from_;
    std::unique_ptr<subword_worker> held_;
  };

  template <class F>
  lease take(F&& make) {
    return {*this, idle_worker_or(std::forward<F>(make))};
  }

 private:
  template <class F>
  std::unique_ptr<subword_worker> idle_worker_or(F&& make) {
    {
      const std::lock_guard lock(guard_);
      if (!idle_.empty()) {
        auto taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
    }
    return make();
  }

  void give_back(std::unique_ptr<subword_worker> x) noexcept {
    x->shed();
    try {
      const std::lock_guard lock(guard_);
      idle_.push_back(std::move(x));
    } catch (const std::bad_alloc&) {  // the pool then loses this worker
    }
  }

  std::mutex guard_;
  std::vector<std::unique_ptr<subword_worker>> idle_;
};

/// A trained subword model. Const methods are thread-safe if each thread uses its own worker.
class subword_model {
 public:
  virtual ~subword_model() = default;

  virtual std::unique_ptr<subword_worker> make_worker() const = 0;

  /// Appends the ids of a non-empty word. Throws input_error if a character has no token and the
  /// model has no unknown token.
  virtual void append(std::string_view word,
                      std::vector<std::int32_t>& ids,
                      subword_worker& by) const = 0;
};

}  // namespace troupe::runtime
