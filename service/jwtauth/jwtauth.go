// Package jwtauth tells callers apart by JSON Web Tokens (RFC 7519), as OpenID Connect and OAuth
// servers issue them:
//
//	verifier, err := jwtauth.New(ctx, jwtauth.Options{
//		JWKS:   "https://login.example.com/keys",
//		Issuer: "https://login.example.com", Audience: "stint",
//	})
//	...
//	name, err := verifier.Principal(ctx, token)
package jwtauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stint-tasks/stint/internal/safely"
)

// ErrInvalid reports that a token proves nothing. Its text, and that of errors that wrap it, is one
// of a few reasons, without any part of the token.
var ErrInvalid = errors.New("the token is not valid")

// Options say which tokens are valid. JWKS, Issuer and Audience are required.
type Options struct {
	// JWKS is where the issuer's public keys are, as a JSON Web Key Set: an https:// URL, an
	// http:// URL of this machine, or the name of a file. A URL is read again after five minutes, a
	// file after a second, and both if a token names a key that is not there, but not within ten
	// seconds after the last attempt (a file: one second). If that fails, the keys that are known
	// stay valid.
	JWKS string

	// Issuer is the claim iss, and Audience is the claim aud or one of its values.
	Issuer, Audience string

	// Claim is the claim that names the caller, a string. A name with dots that is no claim itself
	// leads into objects: "realm.name". Default: "sub".
	Claim string

	// Algorithms are those that a token may be signed with: RS256, RS384, RS512, PS256, PS384,
	// PS512, ES256, ES384, ES512 and EdDSA. Default: RS256, ES256 and EdDSA.
	Algorithms []string

	// Logger gets a warning when the keys cannot be read again. Default: [slog.Default].
	Logger *slog.Logger
}

const (
	// leeway is by how much the clocks of the issuer and of this process may differ.
	leeway = 30 * time.Second

	// tokenBytesMax is how long a token may be.
	tokenBytesMax = 16 << 10
)

// A Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	keys      *keys
	parser    *jwt.Parser
	validator *jwt.Validator
	claim     string
}

// New returns a verifier, once it has read the keys: so a wrong address is noticed early.
func New(ctx context.Context, options Options) (*Verifier, error) {
	if options.JWKS == "" || options.Issuer == "" || options.Audience == "" {
		return nil, errors.New("new verifier: JWKS, Issuer and Audience must not be empty")
	}
	known := []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
	for _, algorithm := range options.Algorithms {
		if !slices.Contains(known, algorithm) {
			return nil, fmt.Errorf("new verifier: %q is not one of the algorithms %s", algorithm,
				strings.Join(known, ", "))
		}
	}
	if len(options.Algorithms) == 0 {
		options.Algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	keys, err := newKeys(ctx, options.JWKS, safely.LoggerOr(options.Logger))
	if err != nil {
		return nil, fmt.Errorf("new verifier: %w", err)
	}
	return &Verifier{
		keys: keys, claim: cmp.Or(options.Claim, "sub"),
		parser: jwt.NewParser(
			jwt.WithValidMethods(options.Algorithms), jwt.WithStrictDecoding(),
			jwt.WithoutClaimsValidation(), // the validator comes after checkTimes
		),
		validator: jwt.NewValidator(
			jwt.WithIssuer(options.Issuer), jwt.WithAudience(options.Audience),
			jwt.WithExpirationRequired(), jwt.WithLeeway(leeway),
		),
	}, nil
}

// Principal returns the name of the caller to whom a token was issued. The error is [ErrInvalid] if
// the token is malformed, longer than 16 KiB, signed by an unknown key or an algorithm that is not
// among the options', of another issuer or for another audience, not valid yet or no longer by more
// than 30 s, without an expiry, without the claim, or if one of its times is none: exp, nbf and iat
// are numbers of seconds, up to the year 9999. It is another one if the token's key is not
// known and the keys cannot be read now, or ctx ends before they are: the caller may ask again.
func (v *Verifier) Principal(ctx context.Context, token string) (string, error) {
	if len(token) > tokenBytesMax {
		return "", invalid("it is longer than 16 KiB")
	}
	claims := jwt.MapClaims{}
	var unknown error // why there is no key
	_, err := v.parser.ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) {
		var key any
		key, unknown = v.keyOf(ctx, parsed.Header)
		return key, unknown
	})
	switch {
	case unknown != nil:
		return "", fmt.Errorf("verify token: %w", unknown)
	case err != nil:
		return "", invalid(reason(err))
	}
	if err := checkTimes(claims); err != nil {
		return "", err
	}
	if err := v.validator.Validate(claims); err != nil {
		return "", invalid(reason(err))
	}
	name, ok := lookUp(claims, v.claim).(string)
	if !ok || name == "" {
		return "", invalid(fmt.Sprintf("it has no text as the claim %q", v.claim))
	}
	return name, nil
}

// secondsMax is the end of the year 9999. Far beyond it a number of seconds overflows, and a time
// that is to come would pass for one that is over.
const secondsMax = 253402300799

// checkTimes refuses times that are none.
func checkTimes(claims jwt.MapClaims) error {
	for _, name := range []string{"exp", "nbf", "iat"} {
		value, given := claims[name]
		seconds, ok := value.(float64)
		switch {
		case given && !ok:
			return invalid("its claim " + name + " is not a number")
		case seconds > secondsMax || seconds < -secondsMax:
			return invalid("its claim " + name + " is not a number of seconds up to the year 9999")
		case given && name == "exp" && seconds == 0: // which would pass for none
			return invalid("it has expired")
		}
	}
	return nil
}

// keyOf returns the key that has signed a token with this header, if it is what it says.
func (v *Verifier) keyOf(ctx context.Context, header map[string]any) (any, error) {
	if _, ok := header["crit"]; ok {
		return nil, invalid("it has extensions that must be understood")
	}
	algorithm, _ := header["alg"].(string)
	id, ok := header["kid"].(string)
	if _, given := header["kid"]; given && !ok {
		return nil, invalid("it is malformed")
	}
	return v.keys.find(ctx, id, algorithm)
}

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// reason is why a token was refused, in words that do not come from it.
func reason(err error) string {
	for _, of := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenMalformed, "it is malformed"},
		{jwt.ErrTokenUnverifiable, "it names no algorithm that is allowed"},
		{jwt.ErrTokenSignatureInvalid, "its signature or its algorithm is wrong"},
		{jwt.ErrTokenRequiredClaimMissing, "it lacks an expiry, an issuer or an audience"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenInvalidAudience, "it is for another audience"},
	} {
		if errors.Is(err, of.err) {
			return of.text
		}
	}
	return "its claims are wrong"
}

// lookUp returns a claim, or nil if there is none.
func lookUp(claims map[string]any, name string) any {
	if claim, ok := claims[name]; ok {
		return claim
	}
	outer, inner, nested := strings.Cut(name, ".")
	if object, ok := claims[outer].(map[string]any); ok && nested {
		return lookUp(object, inner)
	}
	return nil
}
