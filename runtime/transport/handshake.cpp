#include "runtime/transport/handshake.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace troupe::runtime {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view envelope_mark = "TRPH";
constexpr std::size_t envelope = 12, longest_words = 600;
enum kind : std::uint8_t { hello = 1, challenge, claim, welcome, arrival, refusal };

constexpr std::size_t longest_facts = 12 + 4 * (2 + longest_name);

/// Size limits of a message body.
struct bounds {
  std::size_t least, most;
};
constexpr bounds bounds_of(std::uint8_t what) {
  constexpr std::size_t proof = sizeof(proof_bytes);
  switch (what) {
    case hello:
    case challenge:
      return {proof, proof};
    case claim:
      return {proof + 4, proof + longest_facts};
    case kind::welcome:
      return {proof + 4, proof + longest_facts + longest_payload};
    case arrival:
      return {proof, proof + longest_payload};
    default:
      return {0, proof + longest_words};
  }
}

template <class Number>
void put(std::string& to, Number x) {
  to.append(reinterpret_cast<const char*>(&x), sizeof x);
}
template <class Number>
bool get(std::string_view& from, Number& to) {
  if (from.size() < sizeof to)
    return false;
  std::memcpy(&to, from.data(), sizeof to);
  from.remove_prefix(sizeof to);
  return true;
}

void put_name(std::string& to, const std::string& x) {
  put(to, std::uint16_t(x.size()));
  to += x;
}
bool get_name(std::string_view& from, std::string& to) {
  std::uint16_t size = 0;
  if (!get(from, size) || size > longest_name || size > from.size())
    return false;
  to = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

/// Text from another process, made safe for a log line.
std::string in_quotes(std::string_view x) {
  std::string out = "'";
  for (const char c : x.substr(0, 80))
    out += c >= ' ' && c <= '~' ? c : '?';
  return out + (x.size() > 80 ? "...'" : "'");
}

}  // namespace

handshake::handshake(handshake_terms terms, bool is_caller, step first)
    : terms_(std::move(terms)), is_caller_(is_caller), step_(first) {}

handshake handshake::calling(handshake_terms terms,
                             std::string called,
                             const proof_bytes& nonce,
                             std::string payload) {
  handshake out(std::move(terms), true, step::challenge);
  out.called_ = std::move(called);
  out.own_payload_ = std::move(payload);
  out.callers_nonce_ = nonce;
  out.write(hello, text_of(nonce));
  return out;
}

handshake handshake::answering(handshake_terms terms, const proof_bytes& nonce) {
  handshake out(std::move(terms), false, step::hello);
  out.listeners_nonce_ = nonce;
  return out;
}

void handshake::feed(std::string_view bytes) {
  while (!has_failed() && !bytes.empty()) {
    if (is_done() || awaits_payload())
      return fail(handshake_fault::out_of_turn, "it sent more where it has to wait");
    // Reads the envelope first, so that the announced length is checked before the body is stored.
    auto wanted = envelope;
    std::uint32_t size = 0;
    if (in_.size() >= envelope) {
      std::memcpy(&size, in_.data() + 8, sizeof size);
      wanted += size;
    }
    const auto piece = bytes.substr(0, std::min(bytes.size(), wanted - in_.size()));
    in_ += piece;
    bytes.remove_prefix(piece.size());
    const auto known = std::min(in_.size(), envelope_mark.size());
    if (std::string_view(in_).substr(0, known) != envelope_mark.substr(0, known))
      return fail(handshake_fault::nonsense, "its message does not begin with TRPH");
    if (in_.size() < wanted)
      return;
    const auto what = std::uint8_t(in_[4]);
    if (wanted == envelope) {
      std::memcpy(&size, in_.data() + 8, sizeof size);
      if (what < hello || what > refusal || in_.compare(5, 3, std::string(3, '\0')) != 0)
        return fail(handshake_fault::nonsense,
                    "it sent a message of the unknown kind " + std::to_string(what));
      if (size > bounds_of(what).most)
        return fail(handshake_fault::too_long,
                    "it announced " + std::to_string(size) + " bytes; at most "
                        + std::to_string(bounds_of(what).most) + " are allowed");
      if (size < bounds_of(what).least)
        return fail(handshake_fault::nonsense, "it announced a message that is too short");
      if (size > 0)
        continue;
    }
    const auto whole = std::exchange(in_, {});
    take(what, std::string_view(whole).substr(envelope));
  }
}

std::string handshake::take_output() {
  return std::exchange(out_, {});
}

void handshake::take(std::uint8_t what, std::string_view body) {
  if (is_caller_ && what == refusal)
    return take_refusal(body);
  if (step_ == step::hello && what == hello) {
    std::copy(body.begin(), body.end(), callers_nonce_.begin());
    write(challenge, text_of(listeners_nonce_));
    step_ = step::claim;
  } else if (step_ == step::challenge && what == challenge) {
    std::copy(body.begin(), body.end(), listeners_nonce_.begin());
    auto said = facts();
    put_name(said, called_);
    write_with_proof(claim, said);
    step_ = step::welcome;
  } else if (step_ == step::claim && what == claim) {
    take_claim(body);
  } else if (step_ == step::welcome && what == kind::welcome) {
    take_welcome(body);
  } else if (step_ == step::arrival && what == arrival) {
    take_arrival(body);
  } else {
    fail(handshake_fault::out_of_turn,
         "it sent message " + std::to_string(what) + " of a handshake in the wrong order");
  }
}

void handshake::take_claim(std::string_view body) {
  if (!is_proven(claim, body) || !agree(body, "the caller"))
    return;
  std::string called;
  if (!get_name(body, called) || !body.empty())
    return fail(handshake_fault::nonsense, "its claim cannot be read");
  if (called != terms_.address)
    return fail(handshake_fault::wrong_address,
                "the caller tried to call " + in_quotes(called) + ", but this is "
                    + in_quotes(terms_.address)
                    + ": introduce processes by the address that they report");
  step_ = step::payload;
}

void handshake::welcome(std::string_view payload) {
  auto said = facts();
  said += payload;
  write_with_proof(kind::welcome, said);
  step_ = step::arrival;
}

void handshake::take_welcome(std::string_view body) {
  if (!is_proven(kind::welcome, body) || !agree(body, "the listener"))
    return;
  if (body.empty())
    return fail(handshake_fault::nonsense, "it does not send its UCX address");
  payload_of_other_ = body;
  write_with_proof(arrival, own_payload_);
  step_ = step::done;
}

void handshake::take_arrival(std::string_view body) {
  if (!is_proven(arrival, body))
    return;
  if (body.empty())
    return fail(handshake_fault::nonsense, "it does not send its UCX address");
  payload_of_other_ = body;
  step_ = step::done;
}

// A refusal needs no proof: it only ends this process's own call, as closing the connection would.
void handshake::take_refusal(std::string_view body) {
  if (body.size() > sizeof(proof_bytes) && is_proven(refusal, body))
    return fail(handshake_fault::refused, "it refused: " + std::string(body));
  fault_ = handshake_fault::none;
  fail(handshake_fault::refused,
       "it refused the handshake without a reason, as it does when the secrets differ: give both "
       "processes the credentials of one run");
}

/// Compares protocol, build and run; a difference fails the handshake.
bool handshake::agree(std::string_view& rest, const std::string& whom) {
  std::uint32_t protocol = 0;
  std::string build, run, address;
  get(rest, protocol);
  if (protocol != terms_.protocol) {
    fail(handshake_fault::wrong_version,
         whom + " speaks version " + std::to_string(protocol)
             + " of the wire's protocol, but the other side speaks version "
             + std::to_string(terms_.protocol)
             + ": start all processes of a run with the same build");
  } else if (!get(rest, process_of_other_) || !get_name(rest, build) || !get_name(rest, run)
             || !get_name(rest, address)) {
    fail(handshake_fault::nonsense, "its claim cannot be read");
  } else if (build != terms_.build) {
    fail(handshake_fault::wrong_build,
         whom + " is of the build " + in_quotes(build) + ", but the other side is of the build "
             + in_quotes(terms_.build) + ": start all processes of a run with the same build");
  } else if (run != terms_.run_id) {
    fail(handshake_fault::wrong_run,
         whom + " belongs to the run " + in_quotes(run) + ", but the other side belongs to the run "
             + in_quotes(terms_.run_id) + ": it was given the address of another run's process");
  }
  return !has_failed();
}

void handshake::fail(handshake_fault fault, const std::string& why) {
  if (has_failed())
    return;
  fault_ = fault;
  why_ = why;
  if (is_caller_)
    return;
  if (has_shown_secret_)
    write_with_proof(refusal, why.substr(0, longest_words));
  else
    write(refusal, {});
}

void handshake::write(std::uint8_t what, std::string_view body) {
  out_ += envelope_mark;
  out_ += char(what);
  out_.append(3, '\0');
  put(out_, std::uint32_t(body.size()));
  out_ += body;
}

void handshake::write_with_proof(std::uint8_t what, std::string_view body) {
  const auto shown = proof(what, body);
  write(what, std::string(text_of(shown)).append(body));
  last_proof_ = shown;
}

proof_bytes handshake::proof(std::uint8_t what, std::string_view body) const {
  const std::string label = "troupe wire " + std::to_string(what) + "\n";
  return hmac_sha256(
      terms_.secret,
      {label, text_of(callers_nonce_), text_of(listeners_nonce_), text_of(last_proof_), body});
}

/// Checks and removes the proof of a body.
bool handshake::is_proven(std::uint8_t what, std::string_view& body) {
  const auto shown = body.substr(0, sizeof(proof_bytes));
  body.remove_prefix(shown.size());
  const auto right = proof(what, body);
  if (!equal_in_constant_time(shown, text_of(right))) {
    fail(handshake_fault::wrong_secret,
         "its proof was not made with this run's secret for this connection: it belongs to another "
         "run, or the message is a replay; give both processes the credentials of one run");
    return false;
  }
  last_proof_ = right;
  has_shown_secret_ = true;
  return true;
}

std::string handshake::facts() const {
  std::string out;
  put(out, terms_.protocol);
  put(out, terms_.process);
  put_name(out, terms_.build);
  put_name(out, terms_.run_id);
  put_name(out, terms_.address);
  return out;
}

message_token handshake::token(bool of_caller) const {
  const auto all = hmac_sha256(
      terms_.secret,
      {of_caller ? "troupe wire, caller's messages\n" : "troupe wire, listener's messages\n",
       text_of(callers_nonce_),
       text_of(listeners_nonce_),
       text_of(last_proof_)});
  message_token out;
  std::copy_n(all.begin(), out.size(), out.begin());
  return out;
}

}  // namespace troupe::runtime
