// Who a peer is, before anything else is believed of it or told to it: docs/formats/wire.md, byte
// by byte.
//
//   caller                                     listener
//     hello     32 random bytes         ->
//                                       <-     challenge  32 random bytes
//     claim     who it is, with proof   ->
//                                       <-     welcome    who it is, where its UCX is, with proof
//     arrival   where its UCX is        ->
//
// A proof is HMAC-SHA256 (RFC 2104), keyed with the run's secret, over what the message is, both
// random numbers, the proof before it and all the message says; the message before a proof says
// whose it is: so bytes that were sent before prove nothing, nor does what one side says prove
// anything for the other (WIRE-1). The shape of messages, hello, challenge and the beginning of a
// claim stay as they are in all versions: a later or older build is told in words what is wrong, if
// it has the secret (WIRE-2). What a message announces is bounded before any of it is kept
// (WIRE-3).
//
// Bytes in, bytes out: no socket, no clock, no thread. A plug-in compiles it.

#pragma once

#include "runtime/core/hmac.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Of all that goes over a wire, of the handshake too.
inline constexpr std::uint32_t wire_protocol = 2;

inline constexpr std::size_t longest_name = 256;       ///< of a run, a build, an address
inline constexpr std::size_t longest_payload = 16384;  ///< where a UCX is

struct handshake_terms {
  std::string secret;  ///< empty: nobody is authenticated
  std::string run_id;
  std::string build;
  std::uint32_t protocol = wire_protocol;
  std::uint64_t process = 0;
  std::string address;  ///< where this process listens
};

enum class handshake_fault {
  none,
  left,           ///< it closed the connection
  silent,         ///< its time was over
  crowded,        ///< it had to make room for others
  no_room,        ///< this process cannot serve it
  nonsense,       ///< what it sent is no message of a handshake
  too_long,       ///< it announced more bytes than such a message has
  out_of_turn,    ///< a message, at the wrong time
  wrong_secret,   ///< its proof is none
  wrong_version,  ///< from here on it has the secret
  wrong_build,
  wrong_run,
  wrong_address,  ///< it meant to call somebody else
  refused,        ///< the other side refuses us
};

/// What 16 bytes in front of each message of a connection, in one direction, must be.
using message_token = std::array<char, 16>;

class handshake {
 public:
  /// `nonce` is used once. `payload`: where the caller's UCX is.
  static handshake calling(handshake_terms terms,
                           std::string called,
                           const proof_bytes& nonce,
                           std::string payload);
  static handshake answering(handshake_terms terms, const proof_bytes& nonce);

  /// In pieces of any size. Keeps no more than the longest message that may come next.
  void feed(std::string_view bytes);
  /// What is to be sent now, each byte once.
  std::string take_output();

  /// A listener's: the caller has proven itself and waits to be told where to.
  bool awaits_payload() const { return step_ == step::payload; }
  void welcome(std::string_view payload);
  /// Ends it, as what came does when it is wrong. A listener tells its caller: in words if it has
  /// shown that it has the secret, else that it is refused.
  void fail(handshake_fault fault, const std::string& why);

  bool is_done() const { return step_ == step::done; }
  bool has_failed() const { return fault_ != handshake_fault::none; }
  handshake_fault fault() const { return fault_; }
  const std::string& why() const { return why_; }  ///< what is wrong

  // Of the other side, when it is done.
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
