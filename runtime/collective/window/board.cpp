#include "runtime/collective/window/board.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/process_key.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace troupe::runtime {

namespace {

constexpr std::size_t board_page = 4096;
constexpr std::uint64_t board_version = 1;

// Layout of the word: serial, left, rounds.
constexpr int rounds_bits = 39;
constexpr std::uint64_t left_bit = std::uint64_t{1} << rounds_bits;
constexpr std::uint64_t most_serial = (std::uint64_t{1} << 24) - 1;

std::uint64_t word_of(const window_progress& x) {
  return x.serial << (rounds_bits + 1) | (x.left ? left_bit : 0) | x.rounds;
}
window_progress progress_of(std::uint64_t word) {
  return {word >> (rounds_bits + 1), (word & left_bit) != 0, word & (left_bit - 1)};
}

}  // namespace

struct window_board::first_page {
  std::uint64_t version, nonce;
  std::array<window_bell, channels> bells;
};

/// Holds the offers of two consecutive rounds, because a rank may be one round ahead.
///
/// Another process may read while the next membership is written. It compares the serial before and
/// after. Words are stored with release and loaded with acquire, so neither check moves past them.
struct window_board::channel {
  template <class T>
  struct word {
    std::atomic<T> x;
    void operator=(T to) { x.store(to, std::memory_order_release); }
    operator T() const { return x.load(std::memory_order_acquire); }
  };
  using name = std::array<std::uint64_t, (most_name + 1) / sizeof(std::uint64_t)>;
  struct record {
    word<std::uint64_t> round, words;
    std::array<word<std::int64_t>, most_words_of_offer> all;
  };
  std::atomic<std::uint64_t> progress;
  word<std::int64_t> rank;
  std::array<word<std::uint64_t>, std::tuple_size_v<name>> group;
  std::array<record, 2> records;

  static name name_of(const std::string& group) {
    name out = {};
    std::memcpy(out.data(), group.data(), std::min(group.size(), most_name));
    return out;
  }
};

window_board::window_board(int descriptor, void* at, bool own)
    : descriptor_(own ? descriptor : -1), at_(static_cast<std::byte*>(at)) {}

static std::size_t board_bytes(std::size_t channel_bytes) {
  const auto each = (channel_bytes + board_page - 1) / board_page * board_page;
  return board_page + each * std::size_t(window_board::channels);
}

std::shared_ptr<window_board> window_board::make() {
  static_assert(sizeof(first_page) <= board_page);
  const auto bytes = board_bytes(sizeof(channel));
  const int file = ::memfd_create("troupe windows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* at = MAP_FAILED;
  if (file >= 0 && ::ftruncate(file, off_t(bytes)) == 0
      && ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    const int why = errno;
    if (file >= 0)
      ::close(file);
    throw io_error(
        "cannot create {} bytes of shared memory: {}; raise the limits of descriptors and memory, "
        "or run without shared memory",
        bytes,
        system_message(why));
  }
  std::shared_ptr<window_board> out(new window_board(file, at, true));
  for (int i = 0; i < channels; ++i)
    out->free_.push_back(i);
  std::random_device chance;
  out->first().version = board_version;
  out->first().nonce = std::uint64_t(chance()) << 32 | chance();
  return out;
}

std::shared_ptr<window_board> window_board::open(const window_address& of) {
  const auto where = fmt::format("/proc/{}/fd/{}", of.pid, of.board);
  const auto refuse = [&](const std::string& why) {
    throw io_error(
        "cannot open the shared memory of {} (pid {}), {}: {}; check that it is alive, dumpable "
        "and of the same user, or run without shared memory",
        name_by_process_key(of.process),
        of.pid,
        where,
        why);
  };
  const int file = ::open(where.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    refuse(system_message(errno));
  const auto bytes = board_bytes(sizeof(channel));
  const bool fits = ::lseek(file, 0, SEEK_END) == off_t(bytes);
  void* const at
      = fits ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int why = errno;
  ::close(file);
  if (!fits)
    refuse("it is not a board of this version");
  if (at == MAP_FAILED)
    refuse(system_message(why));
  std::shared_ptr<window_board> out(new window_board(-1, at, false));
  if (out->first().version != board_version || out->first().nonce != of.nonce)
    refuse("another process has that pid now");
  if (::mprotect(out->at_ + board_page, bytes - board_page, PROT_READ) != 0)
    refuse(system_message(errno));
  return out;
}

window_board::~window_board() {
  ::munmap(at_, board_bytes(sizeof(channel)));
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

window_board::first_page& window_board::first() const {
  return *reinterpret_cast<first_page*>(at_);
}

window_board::channel& window_board::at(int i) const {
  const auto each = (board_bytes(sizeof(channel)) - board_page) / std::size_t(channels);
  return *reinterpret_cast<channel*>(at_ + board_page + std::size_t(i) * each);
}

std::uint64_t window_board::nonce() const {
  return first().nonce;
}

const void* window_board::probe() const {
  return &first().nonce;
}

window_bell& window_board::bell(int channel) {
  return first().bells[std::size_t(channel)];
}

int window_board::take(const std::string& group, int rank) {
  const std::lock_guard lock(mutex_);
  if (free_.empty())
    throw io_error(
        "rank {} cannot join the group {}: this process already has {} memberships in groups "
        "between processes, the maximum; use fewer groups or more processes",
        rank,
        group,
        channels);
  const int i = free_.front();
  free_.pop_front();
  auto& to = at(i);
  to.progress.store(0);
  last_serial_ = last_serial_ % most_serial + 1;
  const auto name = channel::name_of(group);
  std::copy(name.begin(), name.end(), to.group.begin());
  to.rank = rank;
  for (auto& record : to.records)
    record.words = 0;
  to.progress.store(word_of({.serial = last_serial_}));
  return i;
}

void window_board::give_back(int channel) {
  const std::lock_guard lock(mutex_);
  free_.push_back(channel);
}

void window_board::post(int channel, std::uint64_t rounds, bool left, const window_offer* offer) {
  auto& to = at(channel);
  auto next = progress_of(to.progress.load());
  if (offer != nullptr) {
    const auto words = words_of(*offer);
    auto& record = to.records[rounds % 2];
    std::copy(words.begin(), words.end(), record.all.begin());
    record.words = words.size();
    record.round = rounds;
  }
  next.left = left;
  next.rounds = rounds;
  to.progress.store(word_of(next));
}

std::optional<std::pair<int, std::uint64_t>> window_board::find(const std::string& group,
                                                                int rank) const {
  const auto name = channel::name_of(group);
  for (int i = 0; i < channels; ++i) {
    const auto before = progress(i).serial;
    if (before == 0 || at(i).rank != rank
        || !std::equal(name.begin(), name.end(), at(i).group.begin()))
      continue;
    if (progress(i).serial == before)
      return std::pair(i, before);
  }
  return std::nullopt;
}

window_progress window_board::progress(int channel) const {
  return progress_of(at(channel).progress.load());
}

// The owner may end its membership and start another during this read.
std::optional<window_offer> window_board::offer(int channel,
                                                std::uint64_t serial,
                                                std::uint64_t round) const {
  const auto& from = at(channel).records[round % 2];
  const auto words = std::min(std::uint64_t(from.words), most_words_of_offer);
  const bool is_its = from.round == round;
  std::vector<std::int64_t> copy(from.all.begin(), from.all.begin() + std::ptrdiff_t(words));
  if (!is_its || progress(channel).serial != serial)
    return std::nullopt;
  return offer_in(copy);
}

}  // namespace troupe::runtime
