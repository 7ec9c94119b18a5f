#include "runtime/parameters/initial_values.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

namespace troupe::runtime {
namespace {

using entry = parameter_entry;

constexpr std::int64_t piece_size = std::int64_t{1} << 18;  // fits a core's cache
constexpr std::size_t slots_each = 2;  // a thread draws one piece while another waits for `take`

void draw(std::uint64_t key, std::int64_t first, const distribution& from, std::span<float> to) {
  using kind = distribution::kind;
  if (from.of != kind::normal) {
    const auto value = from.of == kind::uniform ? uniform_between : log_uniform_between;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = float(value(key, std::uint64_t(first) + i, from.first, from.last));
    return;
  }
  std::array<double, 1024> normal;
  for (std::size_t done = 0; done < to.size();) {
    const auto n = std::min(to.size() - done, normal.size());
    standard_normals(key, std::uint64_t(first) + done, {normal.data(), n});
    for (std::size_t i = 0; i < n; ++i)
      to[done + i] = float(from.first * normal[i]);
    done += n;
  }
}

/// Calls visit(index in the whole tensor, count) for the elements of a box, in order: once for
/// those that are adjacent in the whole tensor.
template <class Visit>
void for_each_run(const shape& all, const box& x, const Visit& visit) {
  int outer = x.extents.rank() - 1;  // dimensions before those of a run
  auto run = x.extents[outer];
  while (outer > 0 && x.extents[outer] == all[outer])
    run *= x.extents[--outer];
  for (std::int64_t done = 0; done < x.size(); done += run) {
    std::int64_t element = 0, stride = 1, rest = done;
    for (int i = x.extents.rank() - 1; i >= 0; --i) {
      element += (x.first[i] + rest % x.extents[i]) * stride;
      rest /= x.extents[i];
      stride *= all[i];
    }
    visit(element, run);
  }
}

/// Reserves processors for helper threads. The first worker gets them: workers of a process start
/// at the same time.
class helpers {
 public:
  explicit helpers(std::int64_t wanted) {
    int free = free_.load();
    do
      count_ = int(std::clamp<std::int64_t>(wanted, 0, free));
    while (!free_.compare_exchange_weak(free, free - count_));
  }
  ~helpers() { free_ += count_; }
  helpers(const helpers&) = delete;
  helpers& operator=(const helpers&) = delete;

  int count() const { return count_; }

 private:
  static inline std::atomic<int> free_ = int(std::max(1U, std::thread::hardware_concurrency())) - 1;
  int count_ = 0;
};

/// Draws pieces on several threads and takes them in order.
class drawing {
 public:
  drawing(const parameter_store& store, std::uint64_t seed)
      : store_(store),
        seed_(seed),
        pieces_(cut(store)),
        helpers_(std::min(size() / piece_size, std::int64_t(pieces_.size()) - 1)),
        slots_(std::min(pieces_.size(), slots_each * std::size_t(helpers_.count() + 1))) {
    for (auto& x : slots_) {
      x.values.resize(piece_size);
      if (store.type() != dtype::f32)
        x.rounded.resize(std::size_t(piece_size) * size_of(store.type()));
    }
  }

  void run(const std::function<void(const initial_piece&)>& take) {
    std::vector<std::jthread> threads;
    const stop_at_end stop{*this};  // stops the threads before they are joined
    try {
      for (int i = 0; i < helpers_.count(); ++i)
        threads.push_back(start_thread("initial values", [this] { help(); }));
    } catch (const io_error&) {
      // Fewer helpers only take longer.
    }
    std::unique_lock lock(mutex_);
    for (; taken_ < pieces_.size(); ++taken_) {
      auto& from = slot_of(taken_);
      while (!from.drawn)
        if (may_draw())
          draw_next(lock);
        else
          changed_.wait(lock);
      lock.unlock();
      mark_progress();
      const auto& x = pieces_[taken_];
      const void* const exact = from.values.data();
      const bool rounds = store_.type_of(store_.entries()[std::size_t(x.entry)]) != dtype::f32;
      take({x.entry,
            x.begin,
            {from.values.data(), std::size_t(x.size)},
            rounds ? from.rounded.data() : exact});
      lock.lock();
      from.drawn = false;
      changed_.notify_all();
    }
  }

 private:
  struct piece {
    int entry;
    std::int64_t begin, size;
  };
  struct slot {
    std::vector<float> values;
    std::vector<std::byte> rounded;
    bool drawn = false;
  };
  struct stop_at_end {
    drawing& all;
    ~stop_at_end() {
      const std::lock_guard lock(all.mutex_);
      all.stopped_ = true;
      all.changed_.notify_all();
    }
  };

  static std::vector<piece> cut(const parameter_store& store) {
    std::vector<piece> out;
    for (int i = 0; i < int(store.entries().size()); ++i) {
      const auto& e = store.entries()[std::size_t(i)];
      for (std::int64_t begin = 0; e.owner < 0 && begin < e.valid; begin += piece_size)
        out.push_back({i, begin, std::min(piece_size, e.valid - begin)});
    }
    return out;
  }
  std::int64_t size() const {
    std::int64_t out = 0;
    for (const auto& x : pieces_)
      out += x.size;
    return out;
  }
  slot& slot_of(std::size_t which) { return slots_[which % slots_.size()]; }
  bool may_draw() const { return next_ < std::min(pieces_.size(), taken_ + slots_.size()); }

  void help() {
    std::unique_lock lock(mutex_);
    while (!stopped_ && next_ < pieces_.size())
      if (may_draw())
        draw_next(lock);
      else
        changed_.wait(lock);
  }

  void draw_next(std::unique_lock<std::mutex>& lock) {
    const auto which = next_++;
    const auto& x = pieces_[which];
    auto& to = slot_of(which);
    lock.unlock();
    const std::span<float> values(to.values.data(), std::size_t(x.size));
    initial_values(store_.entries()[std::size_t(x.entry)], seed_, x.begin, values);
    const auto& e = store_.entries()[std::size_t(x.entry)];
    if (store_.type_of(e) != dtype::f32)
      store_.round(e, values, to.rounded.data());
    lock.lock();
    to.drawn = true;
    changed_.notify_all();
  }

  const parameter_store& store_;
  std::uint64_t seed_;
  std::vector<piece> pieces_;
  helpers helpers_;
  std::vector<slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, taken_ = 0;
  bool stopped_ = false;
};

/// Multiplies the values from `element` on by the factors of their rows' kinds.
void multiply_kinds(const parameter_spec& x, std::int64_t element, std::span<float> values) {
  const auto columns = x.extents[1];
  const auto group = std::accumulate(x.row_kinds.begin(), x.row_kinds.end(), std::int64_t(0));
  for (auto& value : values) {
    auto row = element++ / columns % group;
    std::size_t kind = 0;
    while (row >= x.row_kinds[kind])
      row -= x.row_kinds[kind++];
    value = float(double(value) * x.kind_factors[kind]);
  }
}

}  // namespace

void initial_values(const entry& e, std::uint64_t seed, std::int64_t begin, std::span<float> to) {
  if (e.spec.initial.of == distribution::kind::constant)
    return void(std::fill(to.begin(), to.end(), float(e.spec.initial.first)));
  // A tied copy draws the same values as its owner.
  const auto key = random_key(seed, e.known_as(), 0);
  const auto end = begin + std::int64_t(to.size());
  std::int64_t before = 0;
  for (const auto& part : e.boxes) {
    const auto first = std::clamp<std::int64_t>(begin - before, 0, part.size());
    const auto last = std::clamp<std::int64_t>(end - before, 0, part.size());
    auto at = before + first - begin;
    for (const auto& piece : boxes_of_range(part, first, last))
      for_each_run(e.spec.extents, piece, [&](std::int64_t element, std::int64_t n) {
        draw(key, element, e.spec.initial, to.subspan(std::size_t(at), std::size_t(n)));
        if (!e.spec.kind_factors.empty())
          multiply_kinds(e.spec, element, to.subspan(std::size_t(at), std::size_t(n)));
        at += n;
      });
    before += part.size();
  }
}

std::vector<float> initial_values(const entry& e, std::uint64_t seed) {
  std::vector<float> out(std::size_t(e.valid));
  initial_values(e, seed, 0, out);
  return out;
}

void draw_initial_values(const parameter_store& store,
                         std::uint64_t seed,
                         const std::function<void(const initial_piece&)>& take) {
  drawing(store, seed).run(take);
}

void initialise(parameter_store& store, std::uint64_t seed) {
  draw_initial_values(store, seed, [&](const initial_piece& x) {
    store.set_rounded(
        store.entries()[std::size_t(x.entry)], x.begin, std::int64_t(x.values.size()), x.rounded);
  });
}

}  // namespace troupe::runtime
