#include "runtime/object/object_store.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/log.hpp"
#include "runtime/object/object_failure.hpp"
#include "runtime/object/object_request.hpp"
#include "runtime/object/read_ahead.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

/// The object does not exist, or the service does not reveal whether it does.
class no_object final : public input_error {
 public:
  explicit no_object(const std::string& why) : input_error("{}", why) {}
};

struct kept_chunk {
  std::mutex mutex;  // held during the fetch
  std::atomic<bool> here = false;
  std::string bytes;
};

}  // namespace

struct object_store::state {
  object_limits limits;
  std::mutex mutex;
  std::optional<object_service> service;
  std::unique_ptr<object_connections> connections;
  std::mutex keeping;  // one thread at a time writes files of the folder
  std::map<std::string, object_facts> pins;
  std::map<chunk_name, std::shared_ptr<kept_chunk>> chunks;
  std::list<chunk_name> used;  // LRU order, most recent last
  patience until;
  std::unique_ptr<read_ahead> ahead;  // created by the first `expect`

  ~state() {
    const cancel_token now;
    now.cancel();
    until.end_by(now, std::chrono::milliseconds(0));  // cancels prefetches at once
    if (ahead)
      ahead->end();
  }

  const object_service& serving() {
    const std::lock_guard lock(mutex);
    if (!service)
      service = service_from_process();
    if (!connections)
      connections = std::make_unique<object_connections>(limits);
    return *service;
  }

  object_answer ask(const object_request& request, int attempts) {
    const auto& from = serving();
    auto pause = limits.first_pause;
    for (int attempt = 1;; ++attempt) {
      auto out = connections->ask(from, request, until);
      if (out.given_up || (may_pass(out) && until.is_over()))
        refuse_to_wait(request, out);
      if (!may_pass(out))
        return out;
      if (attempt >= attempts)
        throw io_error("cannot read {}; {} attempts failed; {}",
                       story(request.object, out),
                       attempt,
                       advice(out.status, from, out.bucket_region));
      log_warning(
          "cannot read {}; attempt {} of {}", story(request.object, out), attempt, attempts);
      // Jitter: readers that failed together retry at different times.
      const std::uint64_t who[] = {std::uint64_t(::getpid()),
                                   reinterpret_cast<std::uintptr_t>(&out),
                                   std::uint64_t(attempt)};
      const auto share = 512 + hash64(who, sizeof who) % 512;
      if (!until.sleep_for(pause * std::int64_t(share) / 1024))
        refuse_to_wait(request, out);
      pause = std::min(2 * pause, limits.longest_pause);
    }
  }

  [[noreturn]] void refuse_to_wait(const object_request& request, const object_answer& x) {
    throw io_error(
        "cannot read {}: the run was told to end, and waits no longer than {:.1f} s for the "
        "service; run it again",
        x.given_up ? fmt::format("'{}'", to_string(request.object)) : story(request.object, x),
        double(until.grace().count()) / 1e3);
  }

  [[noreturn]] void refuse(const object_request& request, const object_answer& x) {
    if (x.status == 412)
      throw input_error(
          "'{}' changed during the run (HTTP 412: its ETag was {}); start the run again, and do "
          "not change its data",
          to_string(request.object),
          request.etag);
    const auto why = fmt::format("cannot read {}; {}",
                                 story(request.object, x),
                                 advice(x.status, serving(), x.bucket_region));
    if (x.status == 403 || x.status == 404)
      throw no_object(why);
    throw input_error("{}", why);
  }

  object_facts empty_object(const object_request& range) {
    object_request request{.object = range.object, .head = true};
    const auto found = ask(request, limits.attempts);
    if (!found.failure.empty() || found.status != 200 || found.length != std::uint64_t{0}
        || found.etag.empty())
      refuse(request, found);
    return {0, found.etag};
  }

  /// Returns the facts, and the requested bytes in `to`.
  object_facts fetch(const object_request& request,
                     const object_facts* pinned,
                     std::string& to,
                     int attempts) {
    auto found = ask(request, attempts);
    if (found.failure.empty() && found.status == 416 && pinned == nullptr)
      return empty_object(request);
    if (!found.failure.empty() || (found.status >= 300))
      refuse(request, found);
    const auto wrong = [&](const std::string& what) {
      throw io_error(
          "cannot use the service's answer for '{}': {}; check "
          "AWS_ENDPOINT_URL, and proxies on the way",
          to_string(request.object),
          what);
    };
    const auto last = request.offset + request.size - 1;
    const auto range = parse_content_range(found.content_range);
    if (found.status != 206 || !range)
      wrong(fmt::format("bytes {} to {} were requested, but it has HTTP {} and the range '{}'",
                        request.offset,
                        last,
                        found.status,
                        found.content_range));
    if (range->first != request.offset || range->last != std::min(last, range->whole - 1))
      wrong(fmt::format("bytes {} to {} were requested, but it has bytes {} to {} of {}",
                        request.offset,
                        last,
                        range->first,
                        range->last,
                        range->whole));
    if (found.body.size() != range->last - range->first + 1)
      wrong(fmt::format(
          "it announces {} bytes but has {}", range->last - range->first + 1, found.body.size()));
    if (found.etag.empty() || found.etag.starts_with("W/"))
      wrong("it has no strong ETag, so a change of the object could not be detected");
    const object_facts facts{range->whole, found.etag};
    if (pinned != nullptr && facts != *pinned)
      throw input_error(
          "'{}' changed during the run: it had {} bytes and ETag {}, now {} and {}; start the run "
          "again, and do not change its data",
          to_string(request.object),
          pinned->size,
          pinned->etag,
          facts.size,
          facts.etag);
    to = std::move(found.body);
    return facts;
  }

  std::optional<object_facts> pinned(const object_url& object) {
    const std::lock_guard lock(mutex);
    const auto at = pins.find(to_string(object));
    return at == pins.end() ? std::nullopt : std::optional(at->second);
  }

  object_facts facts(const object_url& object) {
    const auto name = to_string(object);
    if (const auto known = pinned(object))
      return *known;
    const auto first = std::make_shared<kept_chunk>();
    const auto found
        = fetch({.object = object, .size = limits.chunk}, nullptr, first->bytes, limits.attempts);
    first->here = true;
    const std::lock_guard lock(mutex);
    const auto [at, is_new] = pins.emplace(name, found);
    if (is_new && found.size > 0)
      keep({name, 0}, first);
    return at->second;
  }

  /// Needs the mutex.
  void keep(const chunk_name& name, const std::shared_ptr<kept_chunk>& chunk) {
    chunks[name] = chunk;
    used.push_back(name);
    while (used.size() > std::max<std::size_t>(limits.memory / limits.chunk, 1)) {
      if (ahead)
        ahead->remove(used.front());
      chunks.erase(used.front());
      used.pop_front();
    }
  }

  void expect(const object_url& object, std::uint64_t first, std::uint64_t last) {
    const auto name = to_string(object);
    const std::lock_guard lock(mutex);
    if (!ahead)
      ahead = std::make_unique<read_ahead>(
          limits.readers_ahead,
          std::min(limits.ahead, limits.memory / 2) / limits.chunk,
          [this](const object_url& of, std::uint64_t index) { chunk(of, facts(of), index, 1); });
    for (auto index = first; index <= last; ++index)
      if (const auto at = chunks.find({name, index}); at == chunks.end() || !at->second->here)
        ahead->add(object, index);
  }

  /// Fetches a chunk for a read.
  std::shared_ptr<kept_chunk> chunk(const object_url& object,
                                    const object_facts& pinned,
                                    std::uint64_t index) {
    auto out = chunk(object, pinned, index, limits.attempts);
    const std::lock_guard lock(mutex);
    if (ahead)
      ahead->remove({to_string(object), index});
    return out;
  }

  std::shared_ptr<kept_chunk> chunk(const object_url& object,
                                    const object_facts& pinned,
                                    std::uint64_t index,
                                    int attempts) {
    const chunk_name name{to_string(object), index};
    std::shared_ptr<kept_chunk> out;
    {
      const std::lock_guard lock(mutex);
      if (const auto at = chunks.find(name); at != chunks.end()) {
        out = at->second;
        used.splice(used.end(), used, std::find(used.begin(), used.end(), name));
      } else
        keep(name, out = std::make_shared<kept_chunk>());
    }
    const std::lock_guard lock(out->mutex);
    if (!out->here) {
      const auto begin = index * limits.chunk;
      fetch({.object = object,
             .offset = begin,
             .size = std::size_t(std::min<std::uint64_t>(limits.chunk, pinned.size - begin)),
             .etag = pinned.etag},
            &pinned,
            out->bytes,
            attempts);
      out->here = true;
    }
    return out;
  }
};

object_store::object_store() : state_(std::make_shared<state>()) {}

object_store::object_store(object_service service, const object_limits& limits)
    : state_(std::make_shared<state>()) {
  state_->limits = limits;
  state_->service = std::move(service);
}

object_facts object_store::facts(const object_url& object) const {
  return state_->facts(object);
}

std::optional<object_facts> object_store::find(const object_url& object) const {
  try {
    return state_->facts(object);
  } catch (const no_object&) {
    return std::nullopt;
  }
}

void object_store::end_by(const cancel_token& ending, std::chrono::milliseconds grace) const {
  state_->until.end_by(ending, grace);
}

void object_store::end_by(const cancel_token& ending) const {
  end_by(ending, state_->limits.grace);
}

void object_store::expect(const object_url& object,
                          std::uint64_t offset,
                          std::uint64_t size) const {
  const auto pinned = state_->pinned(object);
  if (!pinned || size == 0 || offset >= pinned->size || size > pinned->size - offset)
    return;
  state_->expect(object, offset / state_->limits.chunk, (offset + size - 1) / state_->limits.chunk);
}

void object_store::read(const object_url& object,
                        std::uint64_t offset,
                        std::span<std::byte> out) const {
  const auto pinned = state_->facts(object);
  ensure(offset <= pinned.size && out.size() <= pinned.size - offset,
         "OBJECT-1: only bytes that an object has are read");
  while (!out.empty()) {
    const auto index = offset / state_->limits.chunk;
    const auto chunk = state_->chunk(object, pinned, index);
    const auto begin = std::size_t(offset - index * state_->limits.chunk);
    const auto count = std::min(out.size(), chunk->bytes.size() - begin);
    std::memcpy(out.data(), chunk->bytes.data() + begin, count);
    out = out.subspan(count);
    offset += count;
  }
}

mapped_file object_store::kept(const object_url& object,
                               const std::filesystem::path& folder) const {
  const std::lock_guard one(state_->keeping);
  const auto pinned = state_->facts(object);
  digester name;
  name.add(state_->serving().endpoint).add("\n").add(to_string(object));
  const auto path = folder / (to_string(name.result()) + ".object");
  const std::filesystem::path note = path.string() + ".txt";
  const auto said = [&](std::string_view content) {
    return fmt::format("{}\n{}\n{}\n{}\n",
                       to_string(object),
                       pinned.etag,
                       pinned.size,
                       to_string(digester().add(content).result()));
  };
  const auto same_object = fmt::format("{}\n{}\n{}\n", to_string(object), pinned.etag, pinned.size);
  if (std::filesystem::exists(path) && std::filesystem::exists(note)) {
    mapped_file file(path);
    const auto noted = read_text(note);
    const auto found = said(file.text());
    file.require_intact();
    if (noted == found && file.bytes().size() == pinned.size)
      return file;
    if (noted.starts_with(same_object))
      log_warning("'{}' of the object cache is damaged; '{}' is read again",
                  path.string(),
                  to_string(object));
  }
  make_folder(folder);
  remove_parts_of(path);
  {
    file_writer to(path);
    std::string part;
    digester content;
    for (std::uint64_t at = 0; at < pinned.size; at += part.size()) {
      const auto size = std::min<std::uint64_t>(8 * state_->limits.chunk, pinned.size - at);
      state_->fetch(
          {.object = object, .offset = at, .size = std::size_t(size), .etag = pinned.etag},
          &pinned,
          part,
          state_->limits.attempts);
      to.write(part);
      content.add(part);
    }
    to.commit();
    write_text(note, same_object + to_string(content.result()) + '\n');
  }
  mapped_file file(path);
  if (read_text(note) != said(file.text()))
    throw io_error(
        "'{}' of the object cache changed right after it was written: another run may have written "
        "another state of '{}'; start again",
        path.string(),
        to_string(object));
  return file;
}

}  // namespace troupe::runtime
