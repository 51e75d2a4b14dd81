import { Component, type ComponentChildren } from "preact";
import { Failure } from "./notice.tsx";

interface ErrorBoundaryProps {
  /** Another place is tried again. */
  readonly place: string;
  readonly children?: ComponentChildren;
}

/** Where a page cannot be drawn, it says so. The frame around it stays, and leads elsewhere. */
export class ErrorBoundary extends Component<ErrorBoundaryProps, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate({ place }: ErrorBoundaryProps): void {
    if (place !== this.props.place && this.state.error !== null) this.setState({ error: null });
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <>
        <h1>This page cannot be shown</h1>
        <Failure
          title="The answer of the service is not as this page expects it"
          error={new Error(`${adviceText} ${error instanceof Error ? error.message : String(error)}`)}
          retry={() => this.setState({ error: null })}
        />
      </>
    );
  }
}

const adviceText = "The service may be of another version by now: load the page again. The cause:";
