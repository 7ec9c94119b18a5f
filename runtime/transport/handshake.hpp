// The handshake of a wire: each side authenticates the other before it uses or sends any other
// data. docs/formats/wire.md has the bytes.
//
//   caller                                     listener
//     hello     32 random bytes         ->
//                                       <-     challenge  32 random bytes
//     claim     identity, proof         ->
//                                       <-     welcome    identity, UCX address, proof
//     arrival   UCX address, proof      ->
//
// A proof is HMAC-SHA256 (RFC 2104), keyed with the run's secret. It covers the message kind, both
// random numbers, the previous proof and the whole body. The kind identifies the sender's side. So
// replayed bytes prove nothing, and one side's proof is useless for the other (WIRE-1). The
// envelope, hello, challenge and the beginning of a claim stay the same in all versions: a peer of
// another version that has the secret gets a readable reason (WIRE-2). Announced lengths are
// checked before a body is stored (WIRE-3).
//
// Bytes in, bytes out: no socket, clock or thread. The UCX plug-in compiles it too.

#pragma once

#include "runtime/core/hmac.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Version of the whole wire protocol, including the handshake.
inline constexpr std::uint32_t wire_protocol = 2;

inline constexpr std::size_t longest_name = 256;       ///< bytes of a run, build or address name
inline constexpr std::size_t longest_payload = 16384;  ///< bytes of a UCX address

struct handshake_terms {
  std::string secret;  ///< empty: no authentication
  std::string run_id;
  std::string build;
  std::uint32_t protocol = wire_protocol;
  std::uint64_t process = 0;
  std::string address;  ///< where this process listens
};

enum class handshake_fault {
  none,
  left,           ///< the peer closed the connection
  silent,         ///< timeout
  crowded,        ///< disconnected because too many callers were waiting
  no_room,        ///< this process cannot serve the peer
  nonsense,       ///< not a handshake message
  too_long,       ///< the announced length is above the limit
  out_of_turn,    ///< a valid message at the wrong time
  wrong_secret,   ///< the proof is wrong
  wrong_version,  ///< in this fault and those below, the peer has the secret
  wrong_build,
  wrong_run,
  wrong_address,  ///< the peer called another process's address
  refused,        ///< the other side refuses this one
};

/// The first 16 bytes of each message of a connection, in one direction.
using message_token = std::array<char, 16>;

class handshake {
 public:
  /// `nonce` must be fresh. `payload`: the caller's UCX address.
  static handshake calling(handshake_terms terms,
                           std::string called,
                           const proof_bytes& nonce,
                           std::string payload);
  static handshake answering(handshake_terms terms, const proof_bytes& nonce);

  /// Pieces of any size. Stores at most the longest message that may come next.
  void feed(std::string_view bytes);
  /// Bytes to send now; each byte is returned once.
  std::string take_output();

  /// Listener only: the caller has proven itself and waits for the UCX address.
  bool awaits_payload() const { return step_ == step::payload; }
  void welcome(std::string_view payload);
  /// Fails the handshake, as an invalid message does. A listener tells its caller: with the reason
  /// when the caller has proven that it has the secret, else only that it is refused.
  void fail(handshake_fault fault, const std::string& why);

  bool is_done() const { return step_ == step::done; }
  bool has_failed() const { return fault_ != handshake_fault::none; }
  handshake_fault fault() const { return fault_; }
  const std::string& why() const { return why_; }  ///< reason of the failure

  // Facts about the other side, valid when done.
  const std::string& payload() const { return payload_of_other_; }
  std::uint64_t process() const { return process_of_other_; }
  message_token outgoing_token() const { return token(is_caller_); }
  message_token incoming_token() const { return token(!is_caller_); }

 private:
  enum class step { hello, challenge, claim, payload, welcome, arrival, done };

  handshake(handshake_terms terms, bool is_caller, step first);
  void take(std::uint8_t kind, std::string_view body);
  void take_claim(std::string_view body);
  void take_welcome(std::string_view body);
  void take_arrival(std::string_view body);
  void take_refusal(std::string_view body);
  bool agree(std::string_view& rest, const std::string& whom);
  void write(std::uint8_t kind, std::string_view body);
  void write_with_proof(std::uint8_t kind, std::string_view body);
  proof_bytes proof(std::uint8_t kind, std::string_view body) const;
  bool is_proven(std::uint8_t kind, std::string_view& body);
  std::string facts() const;
  message_token token(bool of_caller) const;

  handshake_terms terms_;
  bool is_caller_;
  step step_;
  std::string called_, own_payload_;
  proof_bytes callers_nonce_ = {}, listeners_nonce_ = {}, last_proof_ = {};
  bool has_shown_secret_ = false;
  std::string in_, out_;
  handshake_fault fault_ = handshake_fault::none;
  std::string why_, payload_of_other_;
  std::uint64_t process_of_other_ = 0;
};

}  // namespace troupe::runtime
