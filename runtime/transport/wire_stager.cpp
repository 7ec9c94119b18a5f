#include "runtime/transport/wire_stager.hpp"

#include "runtime/core/thread.hpp"
#include "runtime/device/device_memory.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

namespace {
constexpr int at_once = 2;
constexpr std::chrono::microseconds first_look{20}, rarest_look{1000};
}  // namespace

struct wire_stager::job {
  order what;
  std::uint64_t next = 0;
  bool written = false;
  memory_block lent;  // held for the copying queue
  // Guarded by the inbox's mutex:
  int under_way = 0;  // copied pieces that are not done
  bool given_up = false;
};

wire_stager::wire_stager(std::size_t piece_bytes, bool as_it_lies)
    : piece_bytes_(piece_bytes),
      as_it_lies_(as_it_lies),
      thread_(start_thread("wire stager", [this] { work(); })) {}

wire_stager::~wire_stager() {
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->over = true;
    inbox_->ready.clear();
    inbox_->open.clear();
  }
  inbox_->changed.notify_one();
  thread_.join();
}

void wire_stager::submit(order what) {
  auto x = std::make_shared<job>();
  x->next = what.begin;
  x->what = std::move(what);
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->open.insert(x);
    inbox_->ready.push_back(std::move(x));
  }
  inbox_->changed.notify_one();
}

void wire_stager::end_generation(generation_id last) {
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->ended = std::max(inbox_->ended, last);
    for (const auto& x : inbox_->open)
      if (x->what.generation <= last)
        inbox_->ready.push_back(x);  // also one that waits for a hanging peer
  }
  inbox_->changed.notify_one();
}

void wire_stager::drop(const std::shared_ptr<job>& x) {
  x->next = x->what.end;
  x->lent.reset();
  x->what.what = {};
  const std::lock_guard lock(inbox_->mutex);
  inbox_->open.erase(x);
}

/// The inbox's mutex is held.
bool wire_stager::is_ended(const job& x) const {
  return x.what.generation <= inbox_->ended;
}

void wire_stager::work() {
  for (;;) {
    const auto x = next();
    if (x == nullptr)
      return;
    try {
      advance(x);
    } catch (const std::exception& failure) {
      drop(x);
      x->what.failed(failure.what());
    }
  }
}

/// The first written tensor in order of arrival; null when the stager ends.
std::shared_ptr<wire_stager::job> wire_stager::next() {
  const auto is_ready = [this](const std::shared_ptr<job>& x) {
    try {
      x->written = x->written || is_written(x->what.what.block());
      return x->written || is_ended(*x);
    } catch (const std::exception&) {
      return true;  // the device has failed; the copy will report it
    }
  };
  auto pause = first_look;
  std::unique_lock lock(inbox_->mutex);
  while (!inbox_->over) {
    auto& all = inbox_->ready;
    const auto at = std::find_if(all.begin(), all.end(), is_ready);
    if (at != all.end()) {
      auto out = std::move(*at);
      all.erase(at);
      return out;
    }
    if (all.empty()) {
      inbox_->changed.wait(lock);
    } else {
      inbox_->changed.wait_for(lock, pause);
      pause = std::min(2 * pause, rarest_look);
    }
  }
  return nullptr;
}

// Queues a second copy before it waits for the first.
void wire_stager::advance(const std::shared_ptr<job>& x) {
  std::deque<copied> begun;
  bool ended = false, given_up = false;
  while (x->next < x->what.end) {
    {
      const std::lock_guard lock(inbox_->mutex);
      ended = is_ended(*x);
      given_up = x->given_up;
      if (ended || given_up || x->under_way == at_once)
        break;
      ++x->under_way;
    }
    begun.push_back(copy_next(x));
  }
  for (auto& one : begun) {
    one.when->wait();
    x->what.deliver(std::move(one.what));
  }
  if (ended || given_up || x->next == x->what.end)
    drop(x);
  if (ended)
    x->what.ended();
}

wire_stager::copied wire_stager::copy_next(const std::shared_ptr<job>& x) {
  const auto& from = x->what.what;
  auto& by = copier_of(device_of(from.block()));
  by.queue->attend();
  if (x->lent == nullptr)
    x->lent = lend(from.block(), by.queue);
  const auto n = as_it_lies_ ? x->what.end - x->next
                             : std::min<std::uint64_t>(piece_bytes_, x->what.end - x->next);
  auto* at = x->lent.get() + x->next;
  memory_block keep = x->lent;
  if (!as_it_lies_) {
    keep = by.pool.allocate_pinned(n);
    by.queue->copy(keep.get(), at, n);
    at = keep.get();
  }
  copied out{x, {{at, n}, x->next, keep, {}}, by.queue->mark()};
  x->next += n;
  if (x->next == x->what.end)
    x->lent.reset();
  out.what.done = [in = inbox_, x](bool taken) {
    {
      const std::lock_guard lock(in->mutex);
      --x->under_way;
      x->given_up = x->given_up || !taken;
      if (in->over)
        return;
      in->ready.push_back(x);
    }
    in->changed.notify_one();
  };
  return out;
}

wire_stager::copier& wire_stager::copier_of(int device) {
  auto& out = copiers_[device];
  if (out.queue == nullptr) {
    out.queue = open_devices().make_queue(device);
    out.queue->attend();
    out.pool.serve(out.queue);
  }
  return out;
}

}  // namespace troupe::runtime
